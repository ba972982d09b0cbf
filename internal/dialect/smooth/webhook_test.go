package smooth_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
)

func TestWebhook(t *testing.T) {
	secret := []byte("a secret of both")
	var mu sync.Mutex
	var bodies, keys []string
	var statuses []int
	answer := `{"verified":false,"error":"EXPIRED","attemptsRemaining":1}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		b, _ := io.ReadAll(r.Body)
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(r.Header.Get("Parlance-Timestamp") + "." + string(b)))
		if r.Header.Get("Parlance-Signature") != hex.EncodeToString(m.Sum(nil)) || r.Method != http.MethodPost {
			t.Errorf("not signed: %v", r.Header)
		}
		bodies, keys = append(bodies, r.URL.Path+" "+string(b)), append(keys, r.Header.Get("Idempotency-Key"))
		if len(statuses) > 0 {
			if statuses[0] == http.StatusTemporaryRedirect {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(statuses[0])
			statuses = statuses[1:]
			return
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	w := &smooth.Webhook{SendURL: server.URL + "/send", VerifyURL: server.URL + "/verify", Secret: secret, Transport: transport, Timeout: patience}
	c := smooth.Challenge{ID: "i", Session: "s", Channel: "sms", Destination: "+15550100", Tool: "bills"}
	statuses = []int{503, 429}
	if err := w.Send(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if want := `/send {"challengeId":"i","sessionId":"s","channel":"sms","destination":"+15550100","toolId":"bills"}`; len(bodies) != 3 || bodies[2] != want || keys[0] != "i" || keys[2] != "i" {
		t.Errorf("a send is repeated under one key: %q %q", bodies, keys)
	}
	statuses = []int{500}
	v, err := w.Verify(t.Context(), c, "123456")
	if err != nil || v != (smooth.Verdict{Reason: "EXPIRED", Remaining: 1}) || keys[3] != keys[4] || !strings.Contains(bodies[4], `"code":"123456"`) {
		t.Errorf("%+v %v %q", v, err, keys)
	}
	if _, err := w.Verify(t.Context(), c, "123456"); err != nil || keys[5] == keys[4] {
		t.Errorf("each try has a key of its own: %v %q", err, keys)
	}
	for name, list := range map[string][]int{"a refusal is not repeated": {403}, "a redirect is not followed": {307}, "it gives up": {500, 500, 500}} {
		mu.Lock()
		statuses, bodies = list, nil
		mu.Unlock()
		_, err := w.Verify(t.Context(), c, "123456")
		if err == nil || len(bodies) != len(list) || strings.Contains(err.Error(), "123456") || strings.Contains(err.Error(), server.URL) {
			t.Errorf("%s: SMO-210 %v after %d", name, err, len(bodies))
		}
	}
	mu.Lock()
	answer = "true"
	mu.Unlock()
	if v, err := w.Verify(t.Context(), c, "123456"); err == nil || v.OK {
		t.Errorf("what is no verdict verifies nobody: %+v %v", v, err)
	}
	w.VerifyURL = "http://127.0.0.1:1/hunter2"
	w.Timeout = 300 * time.Millisecond
	if _, err := w.Verify(t.Context(), c, "123456"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a service that is away: %v", err)
	}
}
