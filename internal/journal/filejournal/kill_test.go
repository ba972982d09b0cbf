package filejournal

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// child is a process under test.
func child(what, dir string) int {
	ctx := context.Background()
	j, err := Open(ctx, Options{noSync: true, Dir: dir, segment: 8 << 10})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if what == "open" {
		return 0
	}
	var out sync.Mutex
	for i := range 3 {
		w := newWriter(j, fmt.Sprintf("t%d", i))
		// What a follower was shown is told, and nothing else: it may be ahead
		// of the answers.
		j.Follow(w.key, func(n journal.Notice) {
			var b strings.Builder
			for _, r := range n.Records {
				fmt.Fprintf(&b, "%s %d %d %d\n", w.key.Thread, n.Epoch, r.Pos, r.Tag)
			}
			out.Lock()
			defer out.Unlock()
			os.Stdout.WriteString(b.String())
		})
		go func() {
			fmt.Println("!", scribble(ctx, w))
		}()
	}
	select {}
}

// scribble writes for ever, in all the ways there are.
func scribble(ctx context.Context, w *writer) error {
	if err := w.resume(ctx); err != nil {
		return err
	}
	if w.epoch == 0 {
		if err := w.open(ctx); err != nil {
			return err
		}
	}
	for {
		if w.run == "" {
			if err := w.start(ctx); err != nil {
				return err
			}
		}
		for range rand.IntN(60) {
			if _, err := w.say(ctx, strings.Repeat("x", rand.IntN(80))); err != nil {
				return err
			}
		}
		switch rand.IntN(4) {
		case 0:
			if _, err := w.trim(ctx); err != nil {
				return err
			}
		case 1:
			if _, err := w.commit(ctx, nil, chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{})); err != nil {
				return err
			}
		default:
			if err := w.end(ctx); err != nil {
				return err
			}
		}
	}
}

func start(t *testing.T, what, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+what, childDirEnv+"="+dir)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, bufio.NewScanner(pipe)
}

// F22 kill -9 at any moment loses nothing that anybody was shown, and leaves
// each thread one chain in its epoch.
func TestKilledProcessLosesNothingThatWasShown(t *testing.T) {
	dir := t.TempDir()
	type at struct {
		thread string
		pos    uint64
	}
	shown := map[at]string{}
	for range 12 {
		cmd, lines := start(t, "write", dir)
		limit := 1 + rand.IntN(1500)
		for n := 0; lines.Scan(); n++ {
			if n == limit {
				cmd.Process.Kill() // what is in the pipe yet was shown, too
			}
			var k at
			var epoch, tag uint64
			if _, err := fmt.Sscanf(lines.Text(), "%s %d %d %d", &k.thread, &epoch, &k.pos, &tag); err != nil {
				t.Fatalf("the process said %q", lines.Text())
			}
			shown[k] = fmt.Sprint(epoch, tag)
		}
		cmd.Wait()

		j := mustOpen(t, Options{noSync: true, Dir: dir})
		for i := range 3 {
			w := newWriter(j, fmt.Sprintf("t%d", i))
			s, err := j.Load(t.Context(), journal.Load{Key: w.key})
			if err != nil {
				t.Fatal(err)
			}
			pos, tag := s.Meta.Floor, s.Meta.FloorTag
			has := map[uint64]string{}
			for _, r := range s.Records {
				if r.Pos != pos+1 || r.Prev != tag {
					t.Fatalf("record %d follows %d", r.Pos, pos)
				}
				pos, tag = r.Pos, r.Tag
				has[pos] = fmt.Sprint(s.Meta.Epoch, tag)
			}
			for k, v := range shown {
				if k.thread == w.key.Thread && k.pos > s.Meta.Floor && has[k.pos] != v {
					t.Fatalf("position %d was shown as %s and is %q; the thread is at %d", k.pos, v, has[k.pos], pos)
				}
			}
		}
		j.kill()
	}
	if len(shown) < 1000 {
		t.Fatalf("only %d records were shown: nothing was tried", len(shown))
	}
}

func TestSecondProcessIsToldSoInWords(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, Options{noSync: true, Dir: dir})
	cmd, lines := start(t, "open", dir)
	lines.Scan()
	if err := cmd.Wait(); err == nil || !strings.Contains(lines.Text(), "another process uses the folder") {
		t.Fatalf("the second process ended with %v and said %q", err, lines.Text())
	}
	j.Close()
	cmd, _ = start(t, "open", dir)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("after the first had closed: %v", err)
	}
}
