package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"github.com/google/uuid"
)

// journal looks at where threads are kept.
func (d *doctor) journal(ctx context.Context, app *App) {
	if app.place.redis == nil {
		d.folder("journal", app.place.key.address)
		return
	}
	const subject = "journal"
	o := app.place.redis.options
	for _, address := range o.Addresses {
		if publicHost(address) && o.TLS == nil {
			d.warn(subject, "conversations travel to Redis in clear", "Use rediss:// or the option tls, or a network that only you have.")
			break
		}
	}
	said := new(warnings)
	now := new(redisNow)
	j, err := app.place.open(ctx, now, slog.New(said))
	if err != nil {
		d.fail(subject, err.Error(), "README.md has every option of journal redis.")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	err = j.Ready(ctx)
	for _, w := range said.list() {
		d.warn(subject, w, "")
	}
	if err != nil {
		d.fail(subject, strings.TrimPrefix(err.Error(), "redisjournal: "), "No edge is ready before that is mended.")
	} else {
		d.well(subject, app.place.key.String()+" takes threads")
	}
	_ = j.Close()
}

// warnings keeps what is logged at the level of a warning.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

func (w *warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, r.Message)
	return nil
}

func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w *warnings) WithGroup(string) slog.Handler      { return w }

// folder looks at the folder of a file journal, or at where it would be made.
func (d *doctor) folder(subject, dir string) {
	if strings.HasPrefix(dir, os.TempDir()+string(filepath.Separator)) {
		d.warn(subject, dir+" is in the folder for temporary files, which systems empty", "Name another one by `journal file DIR`.")
	}
	at := dir
	info, err := os.Stat(at)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(at) != at {
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	switch {
	case err != nil:
		d.fail(subject, fmt.Sprintf("%s cannot be looked at: %v", at, errors.Unwrap(err)), "Let the user that Caddy runs as into it.")
		return
	case !info.IsDir():
		d.fail(subject, at+" is no folder", "Name another one by `journal file DIR`.")
		return
	case at == dir && info.Mode().Perm()&0o077 != 0:
		d.warn(subject, dir+" may be read by others than its owner, and conversations lie in it in clear", "chmod 700 it.")
	}
	f, err := os.CreateTemp(at, ".parlance-doctor-*")
	if err != nil {
		d.fail(subject, fmt.Sprintf("nothing can be written in %s: %v", at, errors.Unwrap(err)), "Let the user that Caddy runs as write there, or name another folder.")
		return
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	d.well(subject, "file "+dir)
}

// storage stores something in Caddy's storage, reads it and deletes it again:
// archives are kept there, and beside a shared journal attachments.
func (d *doctor) storage(ctx context.Context, s certmagic.Storage) {
	const subject = "storage"
	const mend = "See the global option storage, and the rights of what it names."
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	key, value := "parlance/doctor/"+uuid.NewString(), []byte("to be deleted")
	if err := s.Store(ctx, key, value); err != nil {
		d.fail(subject, "Caddy's storage does not take anything: "+err.Error(), mend)
		return
	}
	got, err := s.Load(ctx, key)
	if err != nil || string(got) != string(value) {
		d.fail(subject, "Caddy's storage does not give back what it took", mend)
	} else {
		d.well(subject, "Caddy's storage takes and gives")
	}
	if err := s.Delete(ctx, key); err != nil {
		d.warn(subject, "Caddy's storage does not delete: "+err.Error(), mend)
	}
}

// admin looks at who may reach what operators see and do.
func (d *doctor) admin(a *caddy.AdminConfig) {
	const subject = "admin endpoint"
	switch {
	case a != nil && a.Disabled:
		d.warn(subject, "it is off, and with it /parlance/, the commands that ask it, and reloads", "Let it listen on this machine: `admin localhost:2019`.")
	case a != nil && a.Listen != "" && !localListener(a.Listen):
		d.fail(subject, "it listens beyond this machine: whoever reaches it may stop runs and load configurations", "Let it listen on localhost or a unix socket.")
	default:
		d.well(subject, "it is this machine's")
	}
}

// literals finds secrets that stand in the configuration itself, which Caddy
// stores and shows.
func (d *doctor) literals(raw []byte) {
	var config any
	if json.Unmarshal(raw, &config) != nil {
		return
	}
	var found []string
	var walk func(path string, in bool, v any)
	walk = func(path string, in bool, v any) {
		switch v := v.(type) {
		case map[string]any:
			in = in || v["handler"] == "parlance"
			for key, value := range v {
				at := strings.TrimPrefix(path+" "+key, " ")
				if text, is := value.(string); is && in && (secretName(key) && text != "" || hasPassword(text)) && !strings.Contains(text, "{") {
					found = append(found, key)
				}
				walk(at, in || path == "apps" && key == "parlance", value)
			}
		case []any:
			key := path[strings.LastIndexByte(path, ' ')+1:]
			for _, value := range v {
				if text, is := value.(string); is && in && secretName(key) && !strings.Contains(text, "{") {
					found = append(found, key)
				}
				walk(path, in, value)
			}
		}
	}
	walk("", false, config)
	if len(found) > 0 {
		d.warn("secrets", fmt.Sprintf("%d stand in the configuration itself, which Caddy stores and shows (%s)", len(found), found[0]),
			"Write {env.NAME} or {file./path} instead.")
	}
}

func secretName(key string) bool {
	switch strings.ToLower(key) {
	case "secret", "secrets", "password", "auth_key", "authorization", "x-api-key":
		return true
	}
	return false
}

// hasPassword says that a text is an address with a password in it.
func hasPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return false
	}
	_, has := u.User.Password()
	return has
}

// fewDescriptors is below what a site of some size needs: a socket takes one.
const fewDescriptors = 4096

func (d *doctor) descriptors() {
	n, known := openFiles()
	if known && n < fewDescriptors {
		d.warn("open files", fmt.Sprintf("this process may have %d, and each socket is one", n), "Raise it: LimitNOFILE of the service, or ulimit -n.")
	}
}
