//go:build !windows

package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// StartTLS runs a server that takes TLS at the address that it returns, with the
// options of a client that trusts it. Without TLS the server is at Addr.
func StartTLS(t testing.TB, config ...string) (s *Server, addr string, trusting *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, b := range map[string][]byte{
		"cert.pem": public, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := FreePort(t)
	s = Start(t, append([]string{
		"tls-port " + strconv.Itoa(port), "tls-auth-clients no", "tls-cert-file " + filepath.Join(dir, "cert.pem"),
		"tls-key-file " + filepath.Join(dir, "key.pem"), "tls-ca-cert-file " + filepath.Join(dir, "cert.pem"),
	}, config...)...)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(public)
	return s, "127.0.0.1:" + strconv.Itoa(port), &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
