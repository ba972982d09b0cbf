// Command testserver is what the public test suites of Engine.IO 4 and Socket.IO
// 5 expect on the other side: an echo at /engine.io/ and another at /socket.io/,
// with heartbeats short enough to be waited for.
//
//	go run -race ./internal/wire/socketio/testserver -addr 127.0.0.1:3000
//
// The suites are docs/engine.io-protocol/v4-test-suite and
// docs/socket.io-protocol/v5-test-suite of the socketio/socket.io repository.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/parlance-gateway/parlance/internal/wire/engineio"
	"github.com/parlance-gateway/parlance/internal/wire/socketio"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:3000", "address to listen on")
	origin := flag.String("origin", "", "foreign origin to admit")
	slow := flag.Bool("slow", false, "use the heartbeat of production, not of the suites")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	interval, timeout, connect := 300*time.Millisecond, 200*time.Millisecond, time.Second
	if *slow {
		interval, timeout, connect = 0, 0, 0
	}
	eio := engineio.NewServer(engineio.Options{PingInterval: interval, PingTimeout: timeout, Logger: log}, engineEcho{})
	sio := socketio.NewServer(socketio.Options{
		PingInterval: interval, PingTimeout: timeout, ConnectTimeout: connect,
		Namespaces: []string{"/", "/custom"}, Logger: log,
	}, echo{})

	accept := engineio.Accept{Origins: func(o string, r *http.Request) bool { return *origin != "" && o == *origin }}
	mux := http.NewServeMux()
	mux.HandleFunc("/engine.io/", func(w http.ResponseWriter, r *http.Request) { eio.Accept(w, r, accept) })
	mux.HandleFunc("/socket.io/", func(w http.ResponseWriter, r *http.Request) { sio.Accept(w, r, accept) })
	srv := &http.Server{Addr: *addr, Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	log.Info("listening", "addr", *addr)
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Error("listen", "error", err)
	}
	eio.Close()
	sio.Close()
}

// engineEcho sends each message back.
type engineEcho struct{}

func (engineEcho) Open(*engineio.Session)          {}
func (engineEcho) Close(*engineio.Session, string) {}
func (engineEcho) Message(s *engineio.Session, m engineio.Message) error {
	p := engineio.NewMessage([][]byte{m.Data})
	if m.Binary {
		p = engineio.NewBinary(m.Data)
	}
	_ = s.Send(&p) // a session that has ended needs no echo
	return nil
}

// echo sends events back, as events or as acknowledgements.
type echo struct{}

func (echo) Connect(_ context.Context, s *socketio.Socket, auth json.RawMessage) error {
	if auth == nil {
		auth = json.RawMessage("{}")
	}
	s.Data = auth
	return nil
}

func (echo) Connected(s *socketio.Socket) { _ = s.Emit("auth", s.Data.(json.RawMessage)) }

func (echo) Disconnect(*socketio.Socket, string) {}

func (echo) Event(s *socketio.Socket, e socketio.Event) {
	switch e.Name {
	case "message":
		_ = s.Send(socketio.NewBinaryEvent(s.Namespace(), "message-back", e.Args, e.Attachments))
	case "message-with-ack":
		if e.AckID != socketio.NoAck {
			_ = s.Send(socketio.NewAckIn(s.Namespace(), e.AckID, e.Args, e.Attachments))
		}
	}
}
