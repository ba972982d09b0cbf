package agui

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// part is a piece of a user's message.
type part struct {
	Type   string  `json:"type"`
	Text   string  `json:"text,omitempty"`
	Source *source `json:"source,omitempty"`
	// The form of the first generation.
	MimeType string `json:"mimeType,omitempty"`
	Data     string `json:"data,omitempty"`
	Filename string `json:"filename,omitempty"`
}

type source struct {
	Type     string `json:"type"`
	Value    string `json:"value"`
	MimeType string `json:"mimeType,omitempty"`
}

// attachments makes a part of each attachment of the branch, newest first
// until the bound is reached; the rest are named in words. Those of the message
// to answer must be readable, older ones need not.
func (a *Agent) attachments(ctx context.Context, call *agent.Call) (map[string]part, error) {
	files := make(map[string]part)
	left := a.cfg.MaxAttachments
	old := a.peer.Load() == peerOld
	for n := len(call.Messages) - 1; n >= 0; n-- {
		for _, f := range call.Messages[n].Attachments {
			if _, ok := files[f.ID]; ok {
				continue
			}
			missing := part{Type: "text", Text: "[an attachment of type " + f.MediaType + " is not shown]"}
			if f.Size > left || call.Open == nil {
				files[f.ID] = missing
				continue
			}
			data, err := read(ctx, call, f, left)
			if err != nil {
				if n == len(call.Messages)-1 {
					return nil, fmt.Errorf("agui: reading an attachment: %w", err)
				}
				files[f.ID] = missing
				continue
			}
			left -= int64(len(data))
			files[f.ID] = filePart(f, base64.StdEncoding.EncodeToString(data), old)
		}
	}
	return files, nil
}

func read(ctx context.Context, call *agent.Call, f chat.Attachment, most int64) ([]byte, error) {
	r, err := call.Open(ctx, f.ID)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("it is larger than %d bytes", most)
	}
	return data, err
}

func filePart(f chat.Attachment, data string, old bool) part {
	if old {
		return part{Type: "binary", MimeType: f.MediaType, Data: data, Filename: f.Name}
	}
	kind, _, _ := strings.Cut(f.MediaType, "/")
	switch kind {
	case "image", "audio", "video":
	default:
		kind = "document"
	}
	return part{Type: kind, Source: &source{Type: "data", Value: data, MimeType: f.MediaType}}
}

// userContent is a user's message: a string where there is only text.
func userContent(m *chat.Message, files map[string]part) jsontext.Value {
	text := m.Content()
	if len(m.Attachments) == 0 {
		return content(text)
	}
	var parts []part
	if text != "" {
		parts = append(parts, part{Type: "text", Text: text})
	}
	for _, f := range m.Attachments {
		parts = append(parts, files[f.ID])
	}
	v, err := json.Marshal(parts)
	if err != nil {
		return content(text)
	}
	return v
}
