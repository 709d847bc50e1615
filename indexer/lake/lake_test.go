package lake

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"

	"github.com/troupe-chain/troupe/indexer"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/stream"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// store is an S3-compatible server with one bucket. meddle may answer in its place.
type store struct {
	*httptest.Server
	meddle atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
	asked  atomic.Int64
}

func newStore(t *testing.T) *store {
	t.Helper()
	back := s3mem.New()
	if err := back.CreateBucket("blocks"); err != nil {
		t.Fatal(err)
	}
	fake := gofakes3.New(back).Server()
	s := &store{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if f := s.meddle.Load(); f != nil && (*f)(w, r) {
			return
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *store) instead(f func(w http.ResponseWriter, r *http.Request) bool) { s.meddle.Store(&f) }

func (s *store) open(t *testing.T, trouble func(error)) *Writer {
	t.Helper()
	w, err := Open(t.Context(), Options{Endpoint: s.URL, Region: "us-east-1", Bucket: "blocks", AccessKey: "k", SecretKey: "s", OnTrouble: trouble})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func newMessage(c indexer.Cursor, text string) *indexer.Message {
	return stream.NewMessage(c, func() ([]byte, error) { return []byte(text), nil })
}

// block is a small one.
func block(h primitives.Height) *indexer.Message {
	c := indexer.Cursor{Height: h, Hash: primitives.HashBytes(fmt.Append(nil, h))}
	return newMessage(c, fmt.Sprintf(`{"block":{"header":{"height":%d,"hash":"%v"},"author":"a<&>b","chunks":[]},"shards":[{"shard_id":7,"chunk":null,"b":1,"a":18446744073709551615},{"shard_id":0,"chunk":null}]}`, h, c.Hash))
}

// keysOf lists the bucket.
func keysOf(t *testing.T, w *Writer) (keys []string) {
	t.Helper()
	for o := range w.c.ListObjects(t.Context(), "blocks", minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

func read(t *testing.T, w *Writer, key string) string {
	t.Helper()
	o, err := w.c.GetObject(t.Context(), "blocks", key, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestObjectsHaveLakesNamesAndOrder: a block's objects in the bucket have NEAR Lake's names, and
// members in NEAR Lake's order.
func TestObjectsHaveLakesNamesAndOrder(t *testing.T) {
	w := newStore(t).open(t, nil)
	for h := primitives.Height(98); h < 102; h++ {
		if err := w.Handle(t.Context(), block(h)); err != nil {
			t.Fatal(err)
		}
	}
	keys := keysOf(t, w)
	if want := []string{"000000000098/block.json", "000000000098/shard_0.json", "000000000098/shard_7.json", "000000000099/block.json"}; len(keys) != 12 || !slices.Equal(keys[:4], want) {
		t.Errorf("%v, want %v ...", keys, want)
	}
	if got, want := read(t, w, "000000000101/shard_7.json"), `{"a":18446744073709551615,"b":1,"chunk":null,"shard_id":7}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := read(t, w, "000000000101/block.json"); !strings.HasPrefix(got, `{"author":"a<&>b","chunks":[],"header":{"hash":"`) {
		t.Errorf("got %s", got)
	}
}

// TestObjectsEqualPublishedOnes: messages assembled from blocks that NEAR Lake has published are
// written as the same objects, byte for byte.
func TestObjectsEqualPublishedOnes(t *testing.T) {
	dirs, err := filepath.Glob(testutil.Data("real/lake/*"))
	if err != nil || len(dirs) == 0 {
		t.Skip("the published blocks are not here")
	}
	w := newStore(t).open(t, nil)
	objects := 0
	for _, dir := range dirs {
		files := map[string][]byte{}
		names, _ := filepath.Glob(dir + "/*")
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err == nil && strings.HasSuffix(name, ".gz") {
				var z *gzip.Reader
				if z, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
					text, err = io.ReadAll(z)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			files[strings.TrimSuffix(filepath.Base(name), ".gz")] = bytes.TrimSpace(text)
		}
		var head struct{ Header indexer.BlockHeader }
		if err := json.Unmarshal(files["block.json"], &head); err != nil {
			t.Fatal(err)
		}
		text := append([]byte(`{"block":`), files["block.json"]...)
		text = append(text, `,"shards":[`...)
		for i, name := range slices.Sorted(maps.Keys(files))[1:] {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(text, files[name]...)
		}
		if err := w.Handle(t.Context(), newMessage(indexer.Cursor(head.Header), string(text)+"]}")); err != nil {
			t.Fatal(err)
		}
		for name, want := range files {
			objects++
			if got := read(t, w, filepath.Base(dir)+"/"+name); got != string(want) {
				t.Errorf("%s/%s: %.200s\nwant %.200s", dir, name, got, want)
			}
		}
	}
	last, err := w.Last(t.Context())
	if err != nil || last.Height != 107503705 || objects < 12 {
		t.Errorf("%d objects; the last block is %v, %v", objects, last, err)
	}
}

// TestLastCompleteBlockIsFound: the last complete block is found among any heights, with other
// objects in the bucket, and if later blocks are incomplete.
func TestLastCompleteBlockIsFound(t *testing.T) {
	s := newStore(t)
	w := s.open(t, nil)
	last := func() string {
		t.Helper()
		c, err := w.Last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c == nil {
			return "none"
		}
		return fmt.Sprint(c.Height)
	}
	if got := last(); got != "none" {
		t.Errorf("of nothing the last is %s", got)
	}
	for _, key := range []string{"README", "0/x", "zzz/block.json", ".troupe/x"} {
		if err := w.put(t.Context(), key, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if got := last(); got != "none" {
		t.Errorf("beside others' objects the last is %s", got)
	}
	r := rand.New(rand.NewPCG(3, 4))
	h := primitives.Height(0)
	for i := range 60 {
		if err := w.Handle(t.Context(), block(h)); err != nil {
			t.Fatal(err)
		}
		before := s.asked.Load()
		if got := last(); got != fmt.Sprint(h) {
			t.Fatalf("the last is %s, want %d", got, h)
		}
		if n := s.asked.Load() - before; n > 130 {
			t.Errorf("%d requests to find it", n)
		}
		h += 1 + primitives.Height(r.IntN(1<<(i/4)))
	}
	whole := last()
	for range 2 { // possible remains of a crash
		if err := w.put(t.Context(), folder(h)+"shard_0.json", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		h += 5
		if got := last(); got != whole {
			t.Errorf("the last whole block is %s, want %s", got, whole)
		}
	}
	for range halves {
		if err := w.put(t.Context(), folder(h)+"shard_0.json", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		h++
	}
	if c, err := w.Last(t.Context()); !errors.Is(err, ErrBucket) {
		t.Errorf("behind many that are not whole: %v, %v", c, err)
	}
}

// TestFailingStoreLosesNoBlock: while the store fails in any way, each object is retried, and at
// the end no block is missing or incomplete. After a writer was stopped in the middle of a block,
// the next one continues there.
func TestFailingStoreLosesNoBlock(t *testing.T) {
	s := newStore(t)
	r := rand.New(rand.NewPCG(5, 6))
	var n atomic.Int64
	seeds := make([]int, 4096)
	for i := range seeds {
		seeds[i] = r.IntN(12)
	}
	s.instead(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		switch seeds[n.Add(1)%4096] {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `<Error><Code>SlowDown</Code></Error>`)
		case 2:
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = c.Close()
			}
		default:
			return false
		}
		return true
	})
	var trouble atomic.Int64
	const blocks = 60
	ends := 0
	for next := primitives.Height(0); next < blocks; ends++ {
		w := s.open(t, func(error) { trouble.Add(1) })
		last, err := w.Last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if next = 0; last != nil {
			next = last.Height + 1
		}
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(time.Duration(r.IntN(400))*time.Millisecond, cancel)
		for ; next < blocks && err == nil; next++ {
			err = w.Handle(ctx, block(next))
		}
		stop.Stop()
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err != nil {
			next = 0
		}
	}
	keys := keysOf(t, s.open(t, nil))
	if len(keys) != 3*blocks || trouble.Load() == 0 || ends < 3 {
		t.Errorf("%d objects of %d blocks; %d times trouble, %d writers", len(keys), blocks, trouble.Load(), ends)
	}
}

// TestPermanentErrorIsNotRetried: an error that retries do not fix is returned.
func TestPermanentErrorIsNotRetried(t *testing.T) {
	s := newStore(t)
	open := func(o Options) error {
		o.AccessKey, o.SecretKey, o.Region = "k", "s", "us-east-1"
		_, err := Open(t.Context(), o)
		return err
	}
	for what, o := range map[string]Options{
		"bucket nowhere does not exist": {Endpoint: s.URL, Bucket: "nowhere"}, "is not an endpoint URL": {Endpoint: "blocks.example", Bucket: "blocks"},
		"is not an endpoint URL, with a path": {Endpoint: s.URL + "/blocks", Bucket: "blocks"},
	} {
		t.Run(what, func(t *testing.T) {
			if err := open(o); !errors.Is(err, ErrBucket) || !strings.Contains(err.Error(), strings.Split(what, ",")[0]) {
				t.Errorf("got error %v", err)
			}
		})
	}
	w := s.open(t, func(err error) { t.Errorf("it is tried again: %v", err) })
	m := block(1)
	m.Skipped = []indexer.Cursor{m.Cursor}
	if err := w.Handle(t.Context(), m); !errors.Is(err, ErrBucket) {
		t.Errorf("a skipped block: %v", err)
	}
	s.instead(func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `<Error><Code>AccessDenied</Code><Message>no</Message></Error>`)
		return true
	})
	if err := w.Handle(t.Context(), block(2)); !errors.Is(err, ErrBucket) || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("a key that may not write: %v", err)
	}
	if _, err := w.Last(t.Context()); !errors.Is(err, ErrBucket) {
		t.Errorf("a key that may not list: %v", err)
	}
}
