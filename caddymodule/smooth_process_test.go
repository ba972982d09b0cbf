package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// TestSmoothIsServed speaks to the program as configured, before and after a
// reload, without a credential and without a cookie.
func TestSmoothIsServed(t *testing.T) {
	p := newProcess(t)
	app := journalIn(filepath.Join(p.home, "threads"))
	site := "parlance {\n\t\tagent parrot echo {\n\t\t\tdelay none\n\t\t}\n\t\tsmooth /chat/ws {\n\t\t\tanonymous\n\t\t}\n\t}\n"
	p.start(p.config(app, site))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dial := func() *websocket.Conn {
		ws, _, err := websocket.Dial(ctx, "ws://"+p.site+"/chat/ws?token=hunter2", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.CloseNow() })
		return ws
	}
	type frame struct {
		Type, Token string
		Data        struct {
			SessionID string `json:"sessionId"`
		}
	}
	until := func(ws *websocket.Conn, frameType string) (f frame, said string) {
		for f.Type != frameType {
			_, b, err := ws.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			f = frame{}
			if err := json.Unmarshal(b, &f); err != nil || f.Type == "error" {
				t.Fatalf("%s: %v", b, err)
			}
			said += f.Token
		}
		return f, said
	}
	send := func(ws *websocket.Conn, format string, args ...any) {
		if err := ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	ws := dial()
	send(ws, `{"action":"create_conversation_session","requestId":"c","agentId":"parrot"}`)
	f, _ := until(ws, "immediate_response")
	session := f.Data.SessionID
	if status, body := p.load(p.config(app, strings.Replace(site, "delay none", "delay 1ms", 1))); status != 200 {
		t.Fatalf("reload: %d %s", status, body)
	}
	for n, ws := range []*websocket.Conn{ws, dial()} {
		send(ws, `{"action":"send_message","requestId":"s","sessionId":%q,"message":"say it again"}`, session)
		if _, said := until(ws, "eventual_response"); !strings.Contains(said, "say it again") {
			t.Errorf("SMO-062 connection %d: %q", n, said)
		}
	}
	if strings.Contains(p.logged(), "hunter2") {
		t.Error("SMO-016 the token is in the log")
	}
}
