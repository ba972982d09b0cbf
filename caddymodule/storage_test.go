package caddymodule

import (
	"context"
	"io/fs"
)

// memory is a storage.
type memory map[string][]byte

func (m memory) Store(_ context.Context, key string, value []byte) error {
	m[key] = value
	return nil
}

func (m memory) Load(_ context.Context, key string) ([]byte, error) {
	if b, ok := m[key]; ok {
		return b, nil
	}
	return nil, fs.ErrNotExist
}

func (m memory) Delete(_ context.Context, key string) error {
	delete(m, key)
	return nil
}
