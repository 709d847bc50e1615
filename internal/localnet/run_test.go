package localnet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// fakeNode answers as a node whose chain has a block every ten milliseconds of chain time, with
// two chunks each, and no block at heights that end in 5.
func fakeNode(t *testing.T, height *atomic.Uint64) string { return fakeNodeOf(t, height, nil) }

// fakeNodeOf also passes the transactions that it gets to sent.
func fakeNodeOf(t *testing.T, height *atomic.Uint64, sent chan<- string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Method string
			Params json.RawMessage
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		answer := func(format string, args ...any) {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":`+format+`}`, args...)
		}
		switch q.Method {
		case "status":
			answer(`{"sync_info":{"latest_block_height":%d,"syncing":false}}`, height.Load())
		case "network_info":
			answer(`{"num_active_peers":3}`)
		case "validators":
			answer(`{"epoch_height":2,"current_validators":[{"account_id":"a","shards":[1],"num_produced_blocks":3,"num_expected_blocks":4,
				"num_produced_chunks":5,"num_expected_chunks":5,"num_produced_endorsements":6,"num_expected_endorsements":9}]}`)
		case "block":
			h := height.Load()
			var p struct {
				ID string `json:"block_id"`
			}
			if _ = json.Unmarshal(q.Params, &p); p.ID != "" {
				_, _ = fmt.Sscan(p.ID, &h)
			}
			prev := h - 1
			if prev%10 == 5 {
				prev--
			}
			answer(`{"header":{"hash":"4reLvkAWfqk5fsqio1KLudk46cqRz9erQdaHkWZKMJDZ","height":%d,"prev_height":%d,"block_ordinal":%d,"prev_hash":"%[2]d","timestamp_nanosec":"%[4]d"},"chunks":[
				{"chunk_hash":"c%[1]d","height_included":%[1]d,"tx_root":"x"},{"chunk_hash":"no","height_included":%[1]d,"tx_root":"%[5]s"},
				{"chunk_hash":"no","height_included":%[2]d,"tx_root":"x"}]}`, h, prev, h-h/10, h*10_000_000, noRoot)
		case "chunk":
			if !strings.Contains(string(q.Params), `"c`) {
				t.Errorf("requested the chunk %s", q.Params)
			}
			answer(`{"transactions":[{},{},{}]}`)
		case "query":
			answer(`{"nonce":41,"permission":"FullAccess"}`)
		case "broadcast_tx_async":
			var p []string
			if err := json.Unmarshal(q.Params, &p); err != nil || len(p) != 1 {
				t.Errorf("a transaction is %s, %v", q.Params, err)
			}
			if sent != nil {
				sent <- p[0]
			}
			answer(`"11111111111111111111111111111111"`)
		default:
			t.Errorf("requested %s", q.Method)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestLookReadsBlocksSinceLast reads a chain: at first its head, then all blocks since, up to the
// maximum number.
func TestLookReadsBlocksSinceLast(t *testing.T) {
	var height atomic.Uint64
	height.Store(104)
	url := fakeNode(t, &height)
	if got, want := ask(t.Context(), url), (Answer{Height: 104, Peers: 3}); got != want {
		t.Errorf("ask = %+v, want %+v", got, want)
	}
	heights := func(found []any) (out []uint64) {
		for _, b := range found[0].(Seen).Blocks {
			out = append(out, b.Height)
		}
		return out
	}
	found := look(t.Context(), []string{url}, 0)
	if got := heights(found); !slices.Equal(got, []uint64{104}) {
		t.Errorf("first look: %v", got)
	}
	if e := found[1].(Epoch); e.Height != 2 || fmt.Sprint(e.Duties) != "map[a:{[1] 3 4 5 5 6 9}]" {
		d := e.Duties["a"]
		t.Errorf("epoch = %+v, missed %d", e, d.Missed())
	}
	height.Store(107)
	found = look(t.Context(), []string{"http://127.0.0.1:1", url}[1:], 104)
	if got := heights(found); !slices.Equal(got, []uint64{106, 107}) {
		t.Errorf("second look: %v", got)
	}
	want := Block{Height: 106, Ordinal: 96, Skipped: 1, At: time.Unix(0, 1_060_000_000), Chunks: 3, MissedChunks: 1, Transactions: 3}
	if got := found[0].(Seen).Blocks[0]; !got.At.Equal(want.At) || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("block = %+v, want %+v", got, want)
	}
	if height.Store(1000); len(heights(look(t.Context(), []string{url}, 107))) != maxBlocks {
		t.Error("a look reads more than it may")
	}
	if len(look(t.Context(), []string{"http://127.0.0.1:1"}, 0)) != 0 {
		t.Error("an unreachable node returned data")
	}
	if got := ask(t.Context(), "http://127.0.0.1:1"); got.Err != "no answer" {
		t.Errorf("ask = %+v", got)
	}
}

// screen gives a test what is drawn.
type screen chan string

func (s screen) draw(lines []string) { s <- strings.Join(lines, "\n") }

// await reads the screen until what stands on it.
func (s screen) await(t *testing.T, what string) {
	t.Helper()
	limit := time.After(time.Minute)
	for last := ""; ; {
		select {
		case last = <-s:
			if strings.Contains(last, what) {
				return
			}
		case <-limit:
			t.Fatalf("%q is not on the screen:\n%s", what, last)
		}
	}
}

// press types while the screen is drawn on.
func (s screen) press(keys chan<- []byte, text string) {
	for {
		select {
		case keys <- []byte(text):
			return
		case <-s:
		}
	}
}

// TestRunStartsProcessesAndTakesKeys runs processes, and presses keys.
func TestRunStartsProcessesAndTakesKeys(t *testing.T) {
	var height atomic.Uint64
	height.Store(7)
	url := fakeNode(t, &height)
	dir := t.TempDir()
	node := func(name, script string) Node {
		return Node{Spec: Spec{Name: name}, Command: []string{"sh", "-c", script}, URL: url, Log: filepath.Join(dir, name)}
	}
	const stubborn = `trap 'echo told; exit 0' TERM; echo begun; while :; do sleep 0.05; done`
	s := make(screen)
	keys := make(chan []byte)
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), Options{
			Nodes: []Node{node("one", stubborn), node("two", "echo broken >&2; exit 3"), node("three", "exec sleep 1000")},
			Draw:  s.draw, Size: func() (int, int) { return 150, 20 }, Keys: keys, Every: time.Hour,
		})
	}()
	s.await(t, "two ended by itself: exit status 3; see "+filepath.Join(dir, "two"))
	s.await(t, "height 7 ")
	begun := func() bool {
		in, _ := os.ReadFile(filepath.Join(dir, "one"))
		return strings.HasPrefix(string(in), "begun\n")
	}
	for poll := time.NewTicker(time.Millisecond); !begun(); { // another process
		select {
		case <-poll.C:
		case <-s:
		case <-time.After(time.Minute):
			t.Fatal("one does not begin")
		}
	}
	s.press(keys, "p")
	s.await(t, "one stands still")
	s.press(keys, "s") // told, and heard when it goes on
	s.await(t, "one has ended")
	s.press(keys, "s")
	s.press(keys, "2k")
	s.await(t, "three is killed")
	s.press(keys, "q")
	var err error
	for ended := false; !ended; {
		select {
		case err = <-done:
			ended = true
		case <-s:
		}
	}
	if err == nil || !strings.HasPrefix(err.Error(), "two ended by itself") {
		t.Errorf("Run = %v", err)
	}
	for name, want := range map[string]string{"one": "begun\ntold\n", "two": "broken\n"} { // one has begun again
		if got, err := os.ReadFile(filepath.Join(dir, name)); !strings.HasPrefix(string(got), want) {
			t.Errorf("log of %s = %q, %v, want %q", name, got, err, want)
		}
	}
}

// TestRunWithoutScreenPrintsLines: without a screen Run prints lines, and ends with its context, or
// when no node is left.
func TestRunWithoutScreenPrintsLines(t *testing.T) {
	dir := t.TempDir()
	var lines []string
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{
		Nodes: []Node{{Spec: Spec{Name: "a"}, Command: []string{"sleep", "1000"}, URL: "http://127.0.0.1:1", Log: filepath.Join(dir, "a")}},
		Every: 10 * time.Millisecond, Say: func(l string) {
			if lines = append(lines, l); len(lines) == 5 {
				cancel()
			}
		},
	}
	if err := Run(ctx, o); err != nil {
		t.Error(err)
	}
	if lines[0] != "a runs" || !strings.HasPrefix(lines[1], "height 0 ") || !slices.Contains(lines, "a has ended") {
		t.Errorf("lines = %q", lines)
	}
	o.Nodes[0].Command = []string{filepath.Join(dir, "nothing")}
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("of a program that is not there: %v", err)
	}
}

// TestFullLogIsStartedAnew: a log that is too long is started anew, and the previous content is
// kept in another file.
func TestFullLogIsStartedAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = l.Write([]byte("more\n"))
	l.size = maxLog
	_, _ = l.Write([]byte("new\n"))
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	for p, want := range map[string]string{path: "new\n", path + ".1": "old\nmore\n"} {
		if got, err := os.ReadFile(p); string(got) != want {
			t.Errorf("%s = %q, %v", filepath.Base(p), got, err)
		}
	}
}

func TestFrameHighlightsHeadAndSelection(t *testing.T) {
	if got, want := frame([]string{"a", "b", "> c"}), "\x1b[H\x1b[1ma\x1b[0m\x1b[K\r\nb\x1b[K\r\n\x1b[1m> c\x1b[0m\x1b[K\x1b[J"; got != want {
		t.Errorf("frame = %q, want %q", got, want)
	}
}

// TestFirstSignalStopsSecondKills: the first signal stops all nodes in order, whether or not it
// also ends the context; the second signal kills them at once.
func TestFirstSignalStopsSecondKills(t *testing.T) {
	for _, c := range []struct {
		name        string
		also, again bool // the context ends; a second signal
	}{{"one", false, false}, {"one that ends the context", true, false}, {"two", false, true}, {"two, and the context", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			log := filepath.Join(dir, "a")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			signals, step, deaf := make(chan os.Signal, 4), 0, `trap 'echo told; sleep 0.3; exit 0' TERM; echo begun; while :; do sleep 0.02; done`
			if c.again {
				deaf = `trap 'echo told' TERM; echo begun; while :; do sleep 0.02; done`
			}
			o := Options{Nodes: []Node{{Spec: Spec{Name: "a"}, Command: []string{"sh", "-c", deaf}, URL: "http://127.0.0.1:1", Log: log}}, Every: 10 * time.Millisecond, Signals: signals}
			o.Say = func(string) {
				said, _ := os.ReadFile(log)
				switch {
				case step == 0 && strings.HasPrefix(string(said), "begun"):
					signals <- os.Interrupt
					if c.also {
						cancel()
					}
					step++
				case step == 1 && c.again && strings.Contains(string(said), "told"):
					signals <- os.Interrupt
					step++
				}
			}
			begun := time.Now()
			err := Run(ctx, o)
			if took := time.Since(begun); took > stopLimit-2*time.Second {
				t.Errorf("elapsed time %v is too long", took)
			}
			if err != nil {
				t.Errorf("Run = %v", err)
			}
			if said, _ := os.ReadFile(log); !strings.Contains(string(said), "told") {
				t.Errorf("the user was not told: %q", said)
			}
		})
	}
}

// TestUnmovableFullLogIsOverwritten: if the content of a full log cannot be moved away, logging
// continues in the current file from its start, so that the file does not grow without bound.
func TestUnmovableFullLogIsOverwritten(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"a folder has its place": func(path string) error { return os.MkdirAll(filepath.Join(path+".1", "x"), 0o755) },
		"its folder is gone":     func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "logs", "log")
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			l, err := openLog(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			l.size = maxLog
			for range 2 {
				if n, err := l.Write([]byte("new\n")); n != 4 || err != nil {
					t.Errorf("got %d, error %v", n, err)
				}
			}
			if info, err := l.file.Stat(); err != nil || info.Size() != 8 || l.size != 8 {
				t.Errorf("%+v, %v, counted as %d", info, err, l.size)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLoaderKeepsRateAndNonces: transactions of all accounts arrive, with nonces above those of the
// keys, at no more than the rate.
func TestLoaderKeepsRateAndNonces(t *testing.T) {
	var height atomic.Uint64
	height.Store(7)
	sent := make(chan string, 1000)
	url := fakeNodeOf(t, &height, sent)
	var keys []*primitives.KeyFile
	for _, name := range []string{"node0", "node1"} {
		keys = append(keys, &primitives.KeyFile{AccountID: primitives.AccountID(name),
			SecretKey: primitives.SecretKeyFromSeed(primitives.ED25519, name)})
	}
	l := newLoader(keys)
	l.urls.Store(&[]string{url})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		l.run(ctx)
		close(done)
	}()
	begun := time.Now()
	l.rate.Store(200)
	last := map[primitives.AccountID]primitives.Nonce{}
	for range 40 {
		raw, err := base64.StdEncoding.DecodeString(<-sent)
		if err != nil {
			t.Fatal(err)
		}
		var tx primitives.SignedTransaction
		if err := borsh.Unmarshal(raw, &tx); err != nil {
			t.Fatal(err)
		}
		from := tx.SignerID
		if hash := tx.Hash(); tx.ReceiverID == from || !tx.Signature.Verify(hash[:], tx.PublicKey) || tx.Nonce.Nonce != max(last[from], 41)+1 {
			t.Errorf("%s to %s with nonce %v after %v", from, tx.ReceiverID, tx.Nonce.Nonce, last[from])
		}
		last[from] = tx.Nonce.Nonce
	}
	if took := time.Since(begun).Seconds(); len(last) != 2 || took < 0.15 {
		t.Errorf("%d accounts have sent, in %v s", len(last), took)
	}
	l.urls.Store(&[]string{"http://127.0.0.1:1"})
	for l.counts().Refused == 0 {
		time.Sleep(time.Millisecond)
	}
	if got := l.counts(); got.Sent < 40 || !strings.Contains(got.Err, "read the key of node") {
		t.Errorf("counts = %+v", got)
	}
	cancel()
	<-done
}

// TestLogIsReadWithoutControlCharacters: the end of a log is shown without terminal control
// characters, in bounded memory.
func TestLogIsReadWithoutControlCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.log")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "\x1b[32mINFO\x1b[0m ok\r\n\x1b]0;title\x07\x1b[2J\u202ebad\xff\x00\nlast")
	write(path+".1", "before\n")
	got, err := readLog(path)
	if want := []string{"before", "INFO ok", `\x1b]0;title\x07\x1b[2J\u202ebad\xff\x00`, "last"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("lines %q, %v, want %q", got, err, want)
	}
	write(path, strings.Repeat(strings.Repeat("x", 99)+"\n", 1<<20/100)+strings.Repeat("y", 1<<16))
	if got, err = readLog(path); err != nil || len(got) < maxTail/100-1000 || len(got) > maxTail/100 ||
		len(got[0]) != 99 || len(got[len(got)-1]) > maxLogLine+30 {
		t.Errorf("%d lines, the last of %d bytes, %v", len(got), len(got[len(got)-1]), err)
	}
	write(path, strings.Repeat("z", 2*maxTail)) // one line
	if got, err = readLog(path); err != nil || len(got) != 0 {
		t.Errorf("%d lines, %v", len(got), err)
	}
	if _, err := readLog(path + ".none"); err == nil {
		t.Error("a log that is not there is read")
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skipf("%s is on a file system without named pipes (%v): set TMPDIR to a folder of a local disk", fifo, err)
	}
	for _, path := range []string{fifo, t.TempDir()} {
		if _, err := readLog(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

// TestRunKeysShowLogCutAndLoad shows the log of a node that is killed meanwhile, cuts the network,
// and turns the load on.
func TestRunKeysShowLogCutAndLoad(t *testing.T) {
	var height atomic.Uint64
	height.Store(7)
	sent := make(chan string, 10_000)
	url := fakeNodeOf(t, &height, sent)
	dir := t.TempDir()
	type asked struct {
		node  string
		peers int
	}
	asks := make(chan asked, 1000)
	node := func(name string) Node {
		return Node{Spec: Spec{Name: name}, Command: []string{"sh", "-c",
			"echo hello of " + name + "; exec sleep 1000"}, URL: url, Log: filepath.Join(dir, name),
			Exclude: func(peers []primitives.PublicKey) error {
				asks <- asked{name, len(peers)}
				return nil
			}}
	}
	s := make(screen)
	keys := make(chan []byte)
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), Options{
			Nodes: []Node{node("one"), node("two"), node("three")}, Draw: s.draw, Size: func() (int,
				int) {
				return 150, 20
			}, Keys: keys, Every: time.Hour,
			Accounts: []*primitives.KeyFile{{AccountID: "one", SecretKey: primitives.SecretKeyFromSeed(primitives.ED25519, "one")}},
		})
	}()
	s.await(t, "height 7 ")
	await := func(want asked) {
		t.Helper()
		for limit := time.After(time.Minute); ; {
			select {
			case <-s:
			case got := <-asks:
				if got == want {
					return
				}
			case <-limit:
				t.Fatalf("never %+v", want)
			}
		}
	}
	s.press(keys, "2c")
	s.await(t, "CUT: one to two | three")
	await(asked{"three", 2})
	await(asked{"one", 1})
	s.press(keys, "k")
	s.await(t, "three is killed")
	s.press(keys, "s")
	await(asked{"three", 2}) // a new process is told, too
	s.press(keys, "c")
	await(asked{"three", 0})
	s.press(keys, "t")
	s.await(t, "load: 10/s, ")
	for limit, sends := time.After(time.Minute), false; !sends; {
		select {
		case <-sent:
			sends = true
		case <-s:
		case <-limit:
			t.Fatal("nothing is sent")
		}
	}
	s.press(keys, "k\x1b[A") // kill three, select two
	s.press(keys, "1l")
	s.await(t, "hello of two")
	s.press(keys, "q2l")
	s.await(t, "three killed  "+filepath.Join(dir, "three"))
	s.await(t, "hello of three")
	s.press(keys, "\x03")
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-s:
		}
	}
}
