package pilotoo

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// What is sent is appended by hand: a delta that goes to a thousand windows is
// encoded once, and without reflection.

// quoted appends s as a JSON string. Broken UTF-8 becomes U+FFFD; no control
// character is left raw, which the polling transport relies on.
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

// raw appends a JSON value of the journal's, or null for one that is missing or
// broken: a history that says null is better than one that cannot be read.
func raw(b []byte, v jsontext.Value) []byte {
	if len(v) == 0 || !v.IsValid() {
		return append(b, "null"...)
	}
	return append(b, v...)
}

// instant appends Unix milliseconds as ISO 8601 in UTC (PIL-161).
func instant(b []byte, ms int64) []byte {
	b = append(b, '"')
	b = time.UnixMilli(ms).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	return append(b, '"')
}

// todos appends a whole list (PIL-122, PIL-123).
func todos(b []byte, list []chat.Todo) []byte {
	b = append(b, '[')
	for i, t := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"content":`...)
		b = quoted(b, t.Content)
		switch t.Status {
		case "in_progress", "completed":
		default:
			t.Status = "pending"
		}
		b = member(b, "status", t.Status)
		b = optional(b, "id", t.ID)
		b = append(b, '}')
	}
	return append(b, ']')
}

// task appends a background task (PIL-108).
func task(b []byte, t chat.Task) []byte {
	b = append(b, `{"taskId":`...)
	b = quoted(b, t.ID)
	switch t.Status {
	case "finished", "error", "cancelled":
	default:
		t.Status = "running"
	}
	b = member(b, "status", t.Status)
	b = optional(b, "title", t.Title)
	b = member(b, "parentThreadId", t.Parent)
	b = member(b, "childThreadId", t.Child)
	b = optional(b, "toolCallId", t.Call)
	b = instant(append(b, `,"createdAt":`...), t.Created)
	b = instant(append(b, `,"updatedAt":`...), t.Updated)
	return append(b, '}')
}

// taskStatus is the payload of task:status in one thread's room (PIL-023).
func taskStatus(thread string, t chat.Task) []byte {
	b := append(make([]byte, 0, 384), `{"threadId":`...)
	b = quoted(b, thread)
	b = append(b, `,"task":`...)
	return append(task(b, t), '}')
}
