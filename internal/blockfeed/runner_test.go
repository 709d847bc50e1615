package blockfeed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// recorded are documents of neard's recorded stream by height, and the hashes of the blocks before
// them.
func recorded(t testing.TB) (list map[primitives.Height][]byte, first, last primitives.Height, before []primitives.Hash) {
	t.Helper()
	path := testutil.Data("neard/stream.jsonl.gz")
	testutil.Need(t, path, "recordings are not part of the repository (docs/dev/testing.md)")
	list = map[primitives.Height][]byte{}
	for _, line := range testutil.Lines(t, path) {
		if !strings.HasPrefix(string(line), `{"block"`) {
			continue
		}
		d, err := blockdoc.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		h := d.Block.Header.Height
		if h < 60 {
			before = append(before, d.Hash)
			continue
		}
		if first == 0 {
			first = h
		}
		list[h], last = append([]byte(nil), line...), h
		if len(list) == 80 {
			break
		}
	}
	return list, first, last, before
}

// world is a chain that takes the blocks of a recording in their order, and no others.
type world struct {
	mu    sync.Mutex
	tip   primitives.Height
	hash  map[primitives.Height]primitives.Hash
	waits map[primitives.Height]primitives.Hash
	moved chan struct{}
	took  map[string]int
	r     *Runner
	final primitives.Height             // 0: two below the tip
	admit func(*primitives.Block) error // nil: each block is admitted
}

func newWorld(list map[primitives.Height][]byte, first primitives.Height) *world {
	w := &world{tip: first, hash: map[primitives.Height]primitives.Hash{}, waits: map[primitives.Height]primitives.Hash{}, moved: make(chan struct{}), took: map[string]int{}}
	for h, text := range list {
		if d, err := blockdoc.Parse(text); err == nil {
			w.hash[h] = d.Hash
		}
	}
	return w
}

func (w *world) Tip() primitives.Height {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tip
}

func (w *world) Has(hash primitives.Hash) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for h := w.tip; h > 0 && w.hash[h] != (primitives.Hash{}); h-- {
		if w.hash[h] == hash {
			return true
		}
	}
	return false
}

func (w *world) Final() primitives.Height {
	if w.final != 0 {
		return w.final
	}
	return w.Tip() - 2
}

func (w *world) Admit(b *primitives.Block) error {
	if w.admit == nil {
		return nil
	}
	return w.admit(b)
}

func (w *world) Wanted(primitives.EpochID) (*blockdoc.Wanted, error) {
	return new(blockdoc.Wanted), nil
}

func (w *world) Moved() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moved
}

func (w *world) Deliver(m messages.BlockReceived) {
	w.mu.Lock()
	h := m.Block.Header.Height
	right := w.hash[h] == m.Block.Hash()
	if right {
		w.took[m.From]++
		w.waits[h] = m.Block.Hash()
		for w.waits[w.tip+1] != (primitives.Hash{}) {
			w.tip++
			close(w.moved)
			w.moved = make(chan struct{})
		}
	}
	w.mu.Unlock() // what builds on nothing that is known waits for it
}

// fake is a feed in this process.
type fake struct {
	name  string
	block func(context.Context, primitives.Height) (*blockdoc.Document, error)
}

func (f *fake) Name() string { return f.name }
func (f *fake) Block(ctx context.Context, h primitives.Height, _ bool) (*blockdoc.Document, error) {
	return f.block(ctx, h)
}
func (f *fake) Code(context.Context, primitives.Height, primitives.AccountID, primitives.Hash) ([]byte, error) {
	return nil, nil
}

// TestFailingFeedDoesNotDelayOthers: a feed that stands still, fails, returns another height's or
// another chain's block, or reports every height as skipped, does not keep the other feeds from
// completing the chain. A feed that gave wrong answers is asked less often.
func TestFailingFeedDoesNotDelayOthers(t *testing.T) {
	list, first, last, before := recorded(t)
	right := func(_ context.Context, h primitives.Height) (*blockdoc.Document, error) {
		text := list[h]
		if text == nil {
			return nil, ErrNotYet
		}
		return blockdoc.Parse(text)
	}
	asked := map[string]int{}
	var mu sync.Mutex
	count := func(name string, block func(context.Context, primitives.Height) (*blockdoc.Document, error)) Source {
		return &fake{name, func(ctx context.Context, h primitives.Height) (*blockdoc.Document, error) {
			mu.Lock()
			asked[name]++
			mu.Unlock()
			return block(ctx, h)
		}}
	}
	w := newWorld(list, first)
	w.r = New(Options{Chain: w, Importer: w, Warn: func(string, string, error) {},
		Older: func(yield func(primitives.Hash) bool) {
			for _, h := range append(before, w.hash[first]) {
				if !yield(h) {
					return
				}
			}
		},
		Sources: []Source{
			count("right", right),
			count("slow", func(ctx context.Context, h primitives.Height) (*blockdoc.Document, error) {
				pause(ctx, nil, 30*time.Millisecond)
				return right(ctx, h)
			}),
			count("still", func(ctx context.Context, _ primitives.Height) (*blockdoc.Document, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}),
			count("fails", func(context.Context, primitives.Height) (*blockdoc.Document, error) {
				return nil, errors.New("out of order")
			}),
			count("other heights", func(ctx context.Context, h primitives.Height) (*blockdoc.Document, error) {
				return right(ctx, first+(h*7)%60)
			}),
			count("skips", func(context.Context, primitives.Height) (*blockdoc.Document, error) { return nil, ErrSkipped }),
			count("nothing", func(context.Context, primitives.Height) (*blockdoc.Document, error) { return nil, ErrNotYet }),
			count("another chain", func(_ context.Context, h primitives.Height) (*blockdoc.Document, error) {
				d, err := blockdoc.Parse(list[min(h, last)])
				if err == nil {
					header := *d.Block.Header
					header.Height, header.PrevHash, header.PrevHeight = h, primitives.Hash{byte(h)}, h-1
					d.Block = &primitives.Block{Header: header.Init(), Body: primitives.BlockBody{}}
				}
				return d, err
			}),
			count("words", func(context.Context, primitives.Height) (*blockdoc.Document, error) {
				return blockdoc.Parse([]byte(`{"block":7}`))
			}),
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for w.Tip() < last && ctx.Err() == nil {
			pause(ctx, nil, time.Millisecond)
		}
		cancel()
	}()
	w.r.Run(ctx)
	for _, s := range w.r.Status() {
		t.Logf("%s: asked %d times, gave %d, %d refused, %d failed, %v", s.Name, asked[s.Name], s.Given, s.Refused, s.Failed, s.Last)
	}
	if w.Tip() != last {
		t.Fatalf("the chain reached %d, want %d", w.Tip(), last)
	}
	for name, most := range map[string]int{"fails": 40, "other heights": 40, "words": 40, "another chain": 60, "still": 1} {
		if asked[name] > most {
			t.Errorf("%s got %d requests", name, asked[name])
		}
	}
	for i, s := range w.r.Status() {
		if lied := i == 4 || i == 7 || i == 8; lied != (s.Refused > 0) {
			t.Errorf("%s: %d refused", s.Name, s.Refused)
		}
	}
}

// TestRepliesOfEachFeedKindAreRead: the requests to the three kinds of feeds, and how their replies
// are read: a block, a block that does not exist yet, a skipped height, an error; and over HTTP
// redirects, failures and replies that are too long.
func TestRepliesOfEachFeedKindAreRead(t *testing.T) {
	list, first, last, _ := recorded(t)
	parts := func(h primitives.Height) (block string, shards map[string]string) {
		text := string(list[h])
		at := strings.Index(text, `,"shards":[`)
		block, shards = text[len(`{"block":`):at], map[string]string{}
		for _, one := range strings.Split(text[at+len(`,"shards":[`):len(text)-2], `,{"shard_id":`) {
			one = strings.TrimPrefix(one, `{"shard_id":`)
			id, _, _ := strings.Cut(one, ",")
			shards[id] = `{"shard_id":` + one
		}
		return block, shards
	}
	var h, skipped primitives.Height = first + 5, first + 20
	servers := map[string]http.HandlerFunc{
		"neardata": func(w http.ResponseWriter, r *http.Request) {
			var n primitives.Height
			if _, err := fmt.Sscanf(r.URL.Path, "/v0/block_opt/%d", &n); err != nil {
				t.Error(err)
			}
			switch {
			case n == skipped:
				_, _ = w.Write([]byte("null"))
			case n == 1:
				w.WriteHeader(http.StatusTeapot)
			case n == 2:
				http.Redirect(w, r, fmt.Sprintf("/v0/block_opt/%d", h), http.StatusFound)
			case n == 3:
				http.Redirect(w, r, "/v0/block_opt/3", http.StatusFound)
			case list[n] == nil:
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(`{"error":"x","type":"BLOCK_DOES_NOT_EXIST"}`))
			default:
				_, _ = w.Write(list[n])
			}
		},
		"lake": func(w http.ResponseWriter, r *http.Request) {
			if after := r.URL.Query().Get("start-after"); after != "" {
				var n primitives.Height
				if _, err := fmt.Sscanf(after, "%d", &n); err != nil {
					t.Error(err)
				}
				if n < last {
					_, _ = fmt.Fprintf(w, `<ListBucketResult><CommonPrefixes><Prefix>%012d/</Prefix></CommonPrefixes></ListBucketResult>`, n+1)
				} else {
					_, _ = fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
				}
				return
			}
			var n primitives.Height
			var name string
			if _, err := fmt.Sscanf(r.URL.Path, "/%012d/%s", &n, &name); err != nil {
				t.Error(err)
			}
			switch {
			case n == 1:
				w.WriteHeader(http.StatusTeapot)
				return
			case n == skipped || list[n] == nil:
				w.WriteHeader(http.StatusForbidden)
				return
			}
			block, shards := parts(n)
			text := shards[strings.TrimSuffix(strings.TrimPrefix(name, "shard_"), ".json")]
			if name == "block.json" {
				text = block
			}
			_, _ = w.Write([]byte(text))
		},
	}
	for kind, handle := range servers {
		t.Run(kind, func(t *testing.T) {
			s := httptest.NewServer(handle)
			defer s.Close()
			f, err := Parse(kind + ":" + s.URL + "/")
			if err != nil {
				t.Fatal(err)
			}
			for n := h; n < h+10; n++ {
				d, err := f.Block(t.Context(), n, true)
				if err != nil || d.Block.Header.Height != n {
					t.Fatalf("difference %v, error %v", d, err)
				}
				if chunks, err := d.Chunks(func(primitives.Hash) []byte { return nil }, func(func(primitives.Hash) bool) {}, new(blockdoc.Wanted)); err != nil && !errors.Is(err, blockdoc.ErrLacks) {
					t.Errorf("chunks %v, error %v", chunks, err)
				}
			}
			if _, err := f.Block(t.Context(), skipped, true); !errors.Is(err, ErrSkipped) {
				t.Errorf("a skipped height: %v", err)
			}
			if _, err := f.Block(t.Context(), last+1, true); !errors.Is(err, ErrNotYet) {
				t.Errorf("a future height: %v", err)
			}
			var e *statusError
			if _, err := f.Block(t.Context(), 1, true); !errors.As(err, &e) {
				t.Errorf("HTTP 418: %v", err)
			}
			if kind == "neardata" {
				if d, err := f.Block(t.Context(), 2, true); err != nil || d.Block.Header.Height != h {
					t.Errorf("redirected: %v", err)
				}
				if _, err := f.Block(t.Context(), 3, true); err == nil {
					t.Error("endless redirects returned a block")
				}
			}
		})
	}
}

// TestFollowValuesAreParsed: the values that --follow accepts.
func TestFollowValuesAreParsed(t *testing.T) {
	for text, want := range map[string]string{
		"http://a:1": "http://a:1", "https://a/x/": "https://a/x", "neardata:http://a": "http://a", "lake:https://b.s3.amazonaws.com/": "lake:https://b.s3.amazonaws.com", "rpc:http://a:1": "rpc:http://a:1",
		"": "", "a:1": "", "ftp://a": "", "lake:a": "", "nats:http://a": "", "rpc:": "", "http://": "",
	} {
		s, err := Parse(text)
		if want == "" {
			if err == nil {
				t.Errorf("%q was parsed as %s", text, s.Name())
			}
		} else if err != nil || s.Name() != want {
			t.Errorf("%q: got %v, error %v", text, s, err)
		}
	}
	for name, want := range map[string]bool{"http://127.0.0.1:1": true, "rpc:http://localhost": true, "lake:http://[::1]:9000/x": true, "https://a": false, "rpc:https://10.0.0.1": false, "\x00": false} {
		if got := isLocal(name); got != want {
			t.Errorf("%q is of this machine: %v", name, got)
		}
	}
}
