package redisjournal

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"sync"
)

// memory is a Storage in memory. broken, if set, is asked before each call.
type memory struct {
	mu     sync.Mutex
	values map[string][]byte
	broken func(op, key string) error
}

func newMemory() *memory { return &memory{values: map[string][]byte{}} }

func (m *memory) do(ctx context.Context, op, key string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if key == "" || key[0] == '/' {
		return errors.New("not a key")
	}
	if m.broken != nil {
		if err := m.broken(op, key); err != nil {
			return err
		}
	}
	return f()
}

func (m *memory) Store(ctx context.Context, key string, value []byte) error {
	return m.do(ctx, "store", key, func() error {
		m.values[key] = bytes.Clone(value)
		return nil
	})
}

func (m *memory) Load(ctx context.Context, key string) (value []byte, err error) {
	err = m.do(ctx, "load", key, func() error {
		v, ok := m.values[key]
		if !ok {
			return fs.ErrNotExist
		}
		value = bytes.Clone(v)
		return nil
	})
	return value, err
}

func (m *memory) Delete(ctx context.Context, key string) error {
	return m.do(ctx, "delete", key, func() error {
		if _, ok := m.values[key]; !ok {
			return fs.ErrNotExist
		}
		delete(m.values, key)
		return nil
	})
}

func (m *memory) keys() (keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.values {
		keys = append(keys, k)
	}
	return keys
}
