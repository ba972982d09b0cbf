package caddymodule

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal"
)

// maxPEM bounds a file of certificates.
const maxPEM = 4 << 20

// secure sets up TLS, if it is wanted. The text that it returns is equal for
// configurations that trust and are the same.
func (r *Redis) secure(o *redisjournal.Options) (string, error) {
	if r.TLS == nil {
		return "", nil
	}
	t := r.TLS
	if o.TLS == nil {
		o.TLS = new(tls.Config)
	}
	o.TLS.MinVersion = tls.VersionTLS12
	// Left empty, it is the host that is dialled.
	o.TLS.ServerName = t.ServerName
	digest := sha256.New()
	fmt.Fprintf(digest, "%q %q %q\n", t.ServerName, t.Cert, t.Key)
	if t.CA != "" {
		pem, err := readFile(t.CA)
		if err != nil {
			return "", fmt.Errorf("ca: %w", err)
		}
		o.TLS.RootCAs = x509.NewCertPool()
		if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return "", errors.New("ca: the file has no certificate in PEM form")
		}
		digest.Write(pem)
	}
	if (t.Cert == "") != (t.Key == "") {
		return "", errors.New("cert and key go together: one of them is missing")
	}
	if t.Cert != "" {
		if _, err := loadPair(t.Cert, t.Key); err != nil {
			return "", err
		}
		o.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return loadPair(t.Cert, t.Key)
		}
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err == nil && len(b) > maxPEM {
		err = errors.New("the file is too large for certificates")
	}
	return b, err
}

func loadPair(cert, key string) (*tls.Certificate, error) {
	c, err := readFile(cert)
	if err != nil {
		return nil, fmt.Errorf("cert: %w", err)
	}
	k, err := readFile(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	pair, err := tls.X509KeyPair(c, k)
	if err != nil {
		return nil, fmt.Errorf("cert and key: %w", err)
	}
	return &pair, nil
}
