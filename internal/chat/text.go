package chat

import "github.com/go-json-experiment/json/jsontext"

// Text is text that only grows at its end. A state that was returned keeps the
// length it saw: growing never touches bytes that somebody else can see, so
// one long answer is not copied for every delta.
//
// Only one line of folding may grow a Text; Clip ends that right before a
// state is handed to another line.
type Text []byte

// MarshalJSONTo writes the text as a JSON string.
func (t Text) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteToken(jsontext.String(string(t)))
}

// UnmarshalJSONFrom reads a JSON string.
func (t *Text) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	tok, err := d.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '"' {
		*t = nil
		return nil
	}
	*t = Text(tok.String())
	return nil
}

func (t Text) String() string { return string(t) }
