package pilotoo

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// MediaTypes are what an attachment may be (PIL-051).
var MediaTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}

// Attachment is an image of a run: an earlier upload by its ID, or Data inline.
type Attachment struct {
	ID        string
	MediaType string
	Name      string
	Data      []byte
}

// attachments reads the attachments of a start command (PIL-050 to PIL-054).
func (o object) attachments() ([]Attachment, *Error) {
	list, err := o.list("attachments", MaxAttachments)
	if err != nil {
		return nil, err
	}
	attachments := make([]Attachment, len(list))
	for i, v := range list {
		if attachments[i], err = readAttachment(fmt.Sprintf("attachments[%d]", i), v); err != nil {
			return nil, err
		}
	}
	return attachments, nil
}

func readAttachment(what string, v jsontext.Value) (a Attachment, err *Error) {
	o, err := readObject(what, v, "id", "mediaType", "data", "name")
	if err != nil {
		return a, err
	}
	if o.has("id") {
		if len(o.members) > 1 {
			return a, invalid("%s has an id and so no other key", what)
		}
		a.ID, err = o.id("id")
		return a, err
	}
	if a.MediaType, err = o.text("mediaType"); err != nil {
		return a, err
	}
	if !slices.Contains(MediaTypes, a.MediaType) {
		return a, invalid("%s: mediaType must be one of %s", what, strings.Join(MediaTypes, ", "))
	}
	if o.has("name") {
		if a.Name, err = o.text("name"); err != nil {
			return a, err
		}
		if !validName(a.Name) {
			return a, invalid("%s: name must have 1 to %d characters and no control characters", what, MaxAttachmentName)
		}
	}
	data, err := o.unquoted("data")
	if err != nil {
		return a, err
	}
	a.Data, err = decodeImage(what, a.MediaType, data)
	return a, err
}

// decodeImage reads base64 in its standard, padded form, and judges the size
// and the first bytes of what it holds.
func decodeImage(what, mediaType string, data []byte) ([]byte, *Error) {
	if n := base64.StdEncoding.DecodedLen(len(data)); n > MaxAttachmentBytes+2 {
		return nil, invalid("%s has more than %d bytes", what, MaxAttachmentBytes)
	}
	// Go's decoder skips line ends; the protocol has none.
	if bytes.ContainsAny(data, "\r\n") {
		return nil, invalid("%s: data is not base64", what)
	}
	b := make([]byte, base64.StdEncoding.DecodedLen(len(data)))
	n, err := base64.StdEncoding.Strict().Decode(b, data)
	b = b[:n]
	switch {
	case err != nil:
		return nil, invalid("%s: data is not base64", what)
	case len(b) > MaxAttachmentBytes:
		return nil, invalid("%s has %d bytes, the limit is %d", what, len(b), MaxAttachmentBytes)
	case Sniff(b) != mediaType:
		return nil, invalid("%s: data is not of the type %s", what, mediaType)
	}
	return b, nil
}

// Sniff tells by its first bytes which of MediaTypes an image is; "" is none
// of them. Twelve bytes are enough.
func Sniff(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(b, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return "image/webp"
	case bytes.HasPrefix(b, []byte("GIF87a")), bytes.HasPrefix(b, []byte("GIF89a")):
		return "image/gif"
	}
	return ""
}

// sniffLen is how many bytes Sniff looks at.
const sniffLen = 12

func validName(s string) bool {
	n := utf8.RuneCountInString(s)
	return n >= 1 && n <= MaxAttachmentName && strings.IndexFunc(s, control) < 0
}

func control(r rune) bool { return r < 0x20 || (r >= 0x7f && r < 0xa0) }

// stored is what a message keeps of an attachment.
func (a Attachment) stored() chat.Attachment {
	return chat.Attachment{MediaType: a.MediaType, Name: a.Name, Size: int64(len(a.Data))}
}
