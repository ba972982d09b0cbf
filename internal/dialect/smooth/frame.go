package smooth

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The events of the protocol (SMO-004).
const (
	eventImmediate   = "immediate_response"
	eventEventual    = "eventual_response"
	eventChunk       = "stream_chunk"
	eventToken       = "stream_token"
	eventPreamble    = "stream_preamble"
	eventReasoning   = "stream_reasoning"
	eventKeepalive   = "keepalive"
	eventConfirm     = "write_confirmation_required"
	eventOTP         = "otp_verification_required"
	eventOTPSent     = "otp_sent"
	eventOTPVerified = "otp_verified"
	eventOTPInvalid  = "otp_invalid"
	eventInteraction = "interaction_required"
	eventInvalid     = "interaction_invalid"
	eventCancelled   = "cancelled"
	eventError       = "error"
	eventPong        = "pong"
)

// quoted appends s as a JSON string; broken UTF-8 becomes U+FFFD.
func quoted[S ~string | ~[]byte](b []byte, s S) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// member appends ,"name":"s".
func member[S ~string | ~[]byte](b []byte, name string, s S) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return quoted(b, s)
}

// optional is member, and nothing for an empty s.
func optional(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return member(b, name, s)
}

// raw appends ,"name":v, and null for a value that is missing or broken.
func raw(b []byte, name string, v []byte) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	if len(v) == 0 || !jsontext.Value(v).IsValid() {
		return append(b, "null"...)
	}
	return append(b, v...)
}

// begin starts a frame: {"type":…,"requestId":….
func begin(b []byte, event, request string) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, event...)
	b = append(b, '"')
	return optional(b, "requestId", request)
}

// stamp ends a frame with its timestamp, in Unix milliseconds (SMO-015).
func stamp(b []byte, at int64) []byte {
	b = append(b, `,"timestamp":`...)
	return append(strconv.AppendInt(b, at, 10), '}')
}

// immediate is an immediate_response; data is a JSON object.
func immediate(request string, status int, message string, data []byte, at int64) []byte {
	b := begin(nil, eventImmediate, request)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = member(b, "message", message)
	return stamp(raw(b, "data", data), at)
}

// nested is an event whose data holds the requestId and data of its own.
func nested(event, request string, data []byte, at int64) []byte {
	b := begin(nil, event, request)
	b = append(b, `,"data":{"requestId":`...)
	b = quoted(b, request)
	return stamp(append(raw(b, "data", data), '}'), at)
}

// tokenFrame appends a stream_token, stream_reasoning or stream_preamble
// (SMO-135).
func tokenFrame(b []byte, i *item) []byte {
	b = begin(b, i.kind, i.turn.request)
	b = member(b, "token", i.token)
	b = append(b, `,"data":{"requestId":`...)
	b = quoted(b, i.turn.request)
	b = member(b, "token", i.token)
	return stamp(append(b, '}'), i.at)
}

// chunk is a stream_chunk; state is a JSON object (SMO-139 to SMO-141).
func chunk(request, node string, state []byte, at int64) []byte {
	b := begin(nil, eventChunk, request)
	b = member(b, "node", node)
	b = append(b, `,"data":{"requestId":`...)
	b = quoted(b, request)
	b = member(b, "node", node)
	return stamp(append(raw(b, "state", state), '}'), at)
}

// cancelled is the terminal of a turn that was stopped (SMO-162).
func cancelled(request string, at int64) []byte {
	b := append(begin(nil, eventCancelled, request), `,"status":499,"data":{"requestId":`...)
	b = quoted(b, request)
	return stamp(append(b, `,"status":499}`...), at)
}

func keepalive(request string, at int64) []byte {
	b := append(begin(nil, eventKeepalive, request), `,"data":{"requestId":`...)
	return stamp(append(quoted(b, request), '}'), at)
}

func pong(request string, at int64) []byte {
	b := append(begin(nil, eventPong, request), `,"data":{"timestamp":`...)
	return stamp(append(strconv.AppendInt(b, at, 10), '}'), at)
}

// failure is an error frame, with the error at both places (SMO-124).
func failure(request string, e *Error, at int64) []byte {
	b := raw(begin(nil, eventError, request), "error", e.object())
	b = append(b, `,"data":{`...)
	if request != "" {
		b = append(quoted(append(b, `"requestId":`...), request), ',')
	}
	b = append(b, `"error":`...)
	return stamp(append(append(b, e.object()...), '}'), at)
}

// instant appends Unix milliseconds as ISO 8601 in UTC (SMO-076).
func instant(b []byte, ms int64) []byte {
	b = append(b, '"')
	b = time.UnixMilli(ms).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	return append(b, '"')
}
