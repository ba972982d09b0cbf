package caddymodule

import (
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
)

const testHooks = "send https://codes.example.com/hunter2\nverify http://127.0.0.1:9000/hunter2\n"

// TestOTPReachesTheSite: what the options come to.
func TestOTPReachesTheSite(t *testing.T) {
	if s := made(t, "parlance echo {\nsmooth\n}").site; s.Smooth.Codes != nil {
		t.Errorf("by default: %+v", s.Smooth.Codes)
	}
	s := made(t, "parlance echo {\nsmooth {\notp {\n"+testHooks+"secret {env.PARLANCE_TEST_SECRET}\ntimeout 3s\nper_address 4\n}\notp_resume resend\n}\n}").site
	if !s.Smooth.Resend {
		t.Error("SMO-204 otp_resume is lost")
	}
	if s.Smooth.CodesPerAddress != 4 {
		t.Error("SMO-210 per_address is lost")
	}
	w, ok := s.Smooth.Codes.(*smooth.Webhook)
	if !ok || w.SendURL != "https://codes.example.com/hunter2" || w.VerifyURL != "http://127.0.0.1:9000/hunter2" || w.Timeout != 3*time.Second {
		t.Errorf("%+v", s.Smooth.Codes)
	}
	if ok && string(w.Secret) != testSecret {
		t.Error("the secret is not what its placeholder stands for")
	}
}

// TestValidateOTP refuses what makes no sense; no error repeats a secret or an
// address.
func TestValidateOTP(t *testing.T) {
	for _, c := range []struct{ name, block, want string }{
		{"whole", testHooks + "secret {env.PARLANCE_TEST_SECRET}", ""},
		{"no send", "verify https://a.example\nsecret {env.PARLANCE_TEST_SECRET}", "smooth: otp: send: it is missing"},
		{"no verify", "send https://a.example\nsecret {env.PARLANCE_TEST_SECRET}", "smooth: otp: verify: it is missing"},
		{"no secret", testHooks, "smooth: otp: it has no secret"},
		{"a short secret", testHooks + "secret hunter2", "smooth: otp: secret: it has fewer than 16 bytes"},
		{"http elsewhere", "send http://codes.example.com/hunter2\n", "smooth: otp: send: codes travel in it"},
		{"another scheme", "send ftp://localhost/hunter2\n", "smooth: otp: send: codes travel in it"},
		{"no URL", "send hunter2\n", "smooth: otp: send: it is no URL"},
		{"too long a time", testHooks + "secret {env.PARLANCE_TEST_SECRET}\ntimeout 1m", "smooth: otp: timeout must be above 0 and at most 20s"},
		{"too many codes", testHooks + "secret {env.PARLANCE_TEST_SECRET}\nper_address 1001", "smooth: otp: per_address must be above 0 and at most 1000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := validate(t, "http://chat.example.com {\nparlance echo {\nsmooth {\notp {\n"+c.block+"\n}\n}\n}\n}")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
			noSecret(t, err)
		})
	}
}
