package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxJWKS      = 1 << 20 // bytes, after decompression
	maxETag      = 256     // bytes
	maxRedirects = 3
)

func jwksURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, errJWKSURL
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, errJWKSURL
	}
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// jwksClient follows redirects on the same scheme and host only: whoever can make
// the endpoint redirect must not choose where keys come from, or reach into our
// network.
func jwksClient(given *http.Client) *http.Client {
	client := &http.Client{Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DisableKeepAlives:      true, // a fetch an hour needs no idle connection
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    fetchTimeout,
		ResponseHeaderTimeout:  fetchTimeout,
		MaxResponseHeaderBytes: 64 << 10,
	}}
	if given != nil {
		c := *given
		client = &c
	}
	client.Jar = nil
	client.Timeout = fetchTimeout
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects || req.URL.Scheme != via[0].URL.Scheme || req.URL.Host != via[0].URL.Host {
			return errors.New("redirect refused")
		}
		return nil
	}
	return client
}

// fetched is the outcome of a fetch; keys is nil if the old ones are confirmed.
type fetched struct {
	keys  []verifyKey
	etag  string
	fresh time.Duration
}

func (s *keySet) fetch(etag string) (fetched, error) {
	ctx, cancel := context.WithTimeout(s.ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return fetched{}, fmt.Errorf("jwks: %w", err)
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	resp, err := s.client.Do(req)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the address may hold a secret
	}
	if err != nil {
		return fetched{}, fmt.Errorf("jwks: %w", err)
	}
	defer resp.Body.Close()
	got := fetched{fresh: freshness(resp.Header), etag: resp.Header.Get("ETag")}
	if len(got.etag) > maxETag {
		got.etag = ""
	}
	switch {
	case resp.StatusCode == http.StatusNotModified && etag != "":
		return got, nil
	case resp.StatusCode != http.StatusOK:
		return fetched{}, fmt.Errorf("jwks: status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxJWKS+1))
	if err != nil {
		return fetched{}, fmt.Errorf("jwks: %w", err)
	}
	if len(body) > maxJWKS {
		return fetched{}, fmt.Errorf("jwks: more than %d bytes", maxJWKS)
	}
	got.keys, err = parseJWKS(body, s.algs)
	return got, err
}

// freshness is the max-age of a response within our bounds.
func freshness(h http.Header) time.Duration {
	for part := range strings.SplitSeq(strings.Join(h["Cache-Control"], ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(part)), "=")
		switch name {
		case "no-store", "no-cache":
			return minFresh
		case "max-age":
			seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err != nil {
				return minFresh
			}
			return max(minFresh, min(maxFresh, time.Duration(seconds)*time.Second))
		}
	}
	return usualFresh
}

// parseJWKS takes the signing keys of a set that fit one of algs. A key that we
// cannot use is passed over, as RFC 7517 §5 asks; a set without any is an error,
// so that an endpoint's bad day does not throw away keys that work.
func parseJWKS(body []byte, algs []jose.SignatureAlgorithm) ([]verifyKey, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	// The text is not quoted: it may be anything that the endpoint likes.
	if json.Unmarshal(body, &set) != nil {
		return nil, errors.New("jwks: not a JSON Web Key Set")
	}
	var keys []verifyKey
	for _, raw := range set.Keys {
		k, ok := parseJWK(raw, algs)
		if !ok {
			continue
		}
		if len(keys) == maxKeys {
			return nil, fmt.Errorf("jwks: more than %d keys", maxKeys)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("jwks: no usable key")
	}
	return keys, nil
}

func parseJWK(raw []byte, algs []jose.SignatureAlgorithm) (verifyKey, bool) {
	var jwk jose.JSONWebKey
	if jwk.UnmarshalJSON(raw) != nil || !jwk.Valid() {
		return verifyKey{}, false
	}
	if jwk.Use != "" && jwk.Use != "sig" || len(jwk.KeyID) > maxKid {
		return verifyKey{}, false
	}
	// A private or symmetric key that stands in a public set is no secret any
	// more; publicKey refuses it.
	k, err := publicKey(jwk.KeyID, jwk.Key, algs)
	if err != nil {
		return verifyKey{}, false
	}
	k.algs = slices.DeleteFunc(k.algs, func(a jose.SignatureAlgorithm) bool {
		return !slices.Contains(algs, a) || jwk.Algorithm != "" && jwk.Algorithm != string(a)
	})
	return k, len(k.algs) > 0
}
