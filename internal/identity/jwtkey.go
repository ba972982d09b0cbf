package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	minSecret = 32   // bytes of an HS256 secret, RFC 7518 §3.2
	minRSA    = 2048 // bits, RFC 7518 §3.3
	maxRSA    = 8192 // bits; verifying with a larger one is a gift to attackers
	maxKeys   = 32   // per source, since a token without kid is tried with each
)

// verifyKey is one key that verifies tokens, tied to the algorithms that fit it:
// a public key can never be used as an HMAC secret, whatever a token's header says.
type verifyKey struct {
	kid   string // of a JWKS; "" for configured keys
	algs  []jose.SignatureAlgorithm
	key   any // []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
	thumb [sha256.Size]byte
}

// keySource finds the keys that may have signed a token.
type keySource interface {
	// find returns the keys for a token's kid, which may be "". It may wait for a
	// fetch.
	find(ctx context.Context, kid string) []verifyKey
	// has reports, without waiting, whether the key with this thumbprint is still
	// trusted at now.
	has(thumb [sha256.Size]byte, now time.Time) bool
}

// staticKeys are configured keys. A token's kid says nothing about them.
type staticKeys []verifyKey

func (s staticKeys) find(context.Context, string) []verifyKey { return s }

func (s staticKeys) has(thumb [sha256.Size]byte, _ time.Time) bool {
	return slices.ContainsFunc(s, func(k verifyKey) bool { return k.thumb == thumb })
}

func secretKey(secret []byte) (verifyKey, error) {
	if len(secret) < minSecret {
		return verifyKey{}, fmt.Errorf("secret has %d bytes, needs %d", len(secret), minSecret)
	}
	if block, _ := pem.Decode(secret); block != nil {
		return verifyKey{}, errors.New("secret is a PEM block; give a public key as one")
	}
	return verifyKey{
		algs:  []jose.SignatureAlgorithm{jose.HS256},
		key:   slices.Clone(secret),
		thumb: sha256.Sum256(frame("parlance hs256", string(secret))),
	}, nil
}

// publicKey ties a public key to its algorithms. Beyond the defaults (RS256, the
// one ES algorithm of the curve, EdDSA) an RSA key fits those of extra.
func publicKey(kid string, key any, extra []jose.SignatureAlgorithm) (verifyKey, error) {
	k := verifyKey{kid: kid, key: key}
	switch pub := key.(type) {
	case *rsa.PublicKey:
		if bits := pub.N.BitLen(); bits < minRSA || bits > maxRSA {
			return k, fmt.Errorf("RSA key has %d bits, needs %d to %d", bits, minRSA, maxRSA)
		}
		k.algs = []jose.SignatureAlgorithm{jose.RS256}
		for _, a := range extra {
			if slices.Contains(rsaAlgorithms, a) {
				k.algs = append(k.algs, a)
			}
		}
	case *ecdsa.PublicKey:
		switch pub.Curve {
		case elliptic.P256():
			k.algs = []jose.SignatureAlgorithm{jose.ES256}
		case elliptic.P384():
			k.algs = []jose.SignatureAlgorithm{jose.ES384}
		case elliptic.P521():
			k.algs = []jose.SignatureAlgorithm{jose.ES512}
		default:
			return k, errors.New("elliptic curve must be P-256, P-384 or P-521")
		}
	case ed25519.PublicKey:
		k.algs = []jose.SignatureAlgorithm{jose.EdDSA}
	default:
		return k, errors.New("key must be a public RSA, EC or Ed25519 key")
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return k, fmt.Errorf("public key: %w", err)
	}
	k.thumb = sha256.Sum256(der)
	return k, nil
}

var rsaAlgorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
}

// publicKeys reads PEM blocks: "PUBLIC KEY" or "RSA PUBLIC KEY", nothing else.
func publicKeys(text []byte, extra []jose.SignatureAlgorithm) ([]verifyKey, error) {
	var keys []verifyKey
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		var key any
		var err error
		switch block.Type {
		case "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			key, err = x509.ParsePKCS1PublicKey(block.Bytes)
		default:
			return nil, fmt.Errorf("PEM block is %q, must be a public key", block.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("public key: %w", err)
		}
		k, err := publicKey("", key, extra)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("no PEM block with a public key")
	}
	return keys, nil
}
