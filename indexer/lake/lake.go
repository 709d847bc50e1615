// Package lake writes the blocks of a chain to an S3-compatible bucket in the layout of NEAR Lake, so
// that tools based on near-lake-framework can read it: HEIGHT/block.json and HEIGHT/shard_ID.json,
// the height with twelve digits.
//
//	in      messages of final blocks (package indexer), an existing bucket
//	out     objects; for each block the shards first and block.json last, so that a block with a
//	        block.json is complete
//	state   only the bucket: Last finds the last complete block in it
//	units   heights in blocks
//	bound   one block at a time, its shards in parallel
//	errors  ErrBucket: a retry does not help, as for a rejected key; anything else is reported
//	        to OnTrouble and retried indefinitely
//	source  near-lake-indexer src/main.rs
package lake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/troupe-chain/troupe/indexer"
	"github.com/troupe-chain/troupe/primitives"
)

// ErrBucket is wrapped by errors that a retry does not fix, such as a rejected key.
var ErrBucket = errors.New("the bucket cannot be used")

// Options configure a Writer. Endpoint and Bucket are required.
type Options struct {
	Endpoint string // URL of the S3 service, like https://s3.eu-central-1.amazonaws.com or http://127.0.0.1:9000
	Region   string // region of the bucket; empty: the default of the endpoint
	Bucket   string
	// AccessKey and SecretKey are the credentials. Empty: they are read from AWS_ACCESS_KEY_ID and
	// AWS_SECRET_ACCESS_KEY, ~/.aws/credentials, or the role of the machine.
	AccessKey, SecretKey string
	Transport            http.RoundTripper
	// OnTrouble is called with the reason of each pause before a request is retried; nil: not called.
	OnTrouble func(error)
}

// Writer writes blocks to one bucket. It is not safe for concurrent use.
type Writer struct {
	o Options
	c *minio.Client
}

// The first and the longest pause between two attempts of a request, and the time limit of one
// attempt.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
	tryLimit   = time.Minute
)

// Open checks that the bucket exists and returns a Writer.
func Open(ctx context.Context, o Options) (*Writer, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("%w: %.200q is not an endpoint URL such as http://127.0.0.1:9000", ErrBucket, o.Endpoint)
	}
	keys := credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{}, &credentials.IAM{}})
	if o.AccessKey != "" {
		keys = credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	}
	c, err := minio.New(u.Host, &minio.Options{Creds: keys, Secure: u.Scheme == "https", Region: o.Region,
		Transport: o.Transport, MaxRetries: 1})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBucket, err)
	}
	w := &Writer{o: o, c: c}
	var there bool
	if err := w.try(ctx, "look for the bucket", func(ctx context.Context) (err error) {
		there, err = c.BucketExists(ctx, o.Bucket)
		return err
	}); err != nil {
		return nil, err
	}
	if !there {
		return nil, fmt.Errorf("%w: bucket %s does not exist at %s", ErrBucket, o.Bucket, o.Endpoint)
	}
	return w, nil
}

// refusals are the S3 error codes after which a retry is useless.
var refusals = map[string]bool{
	"AccessDenied": true, "NoSuchBucket": true, "InvalidAccessKeyId": true, "SignatureDoesNotMatch": true, "InvalidBucketName": true,
	"AuthorizationHeaderMalformed": true, "AllAccessDisabled": true, "EntityTooLarge": true,
}

// try calls do until it succeeds, its error is permanent, or the context ends.
func (w *Writer) try(ctx context.Context, what string, do func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		one, cancel := context.WithTimeout(ctx, tryLimit)
		err := do(one)
		cancel()
		switch code := minio.ToErrorResponse(err).Code; {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case refusals[code]:
			return fmt.Errorf("%w: %s: %s: %w", ErrBucket, what, code, err)
		}
		if w.o.OnTrouble != nil {
			w.o.OnTrouble(fmt.Errorf("%s: %w", what, err))
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
	}
}

func folder(h primitives.Height) string { return fmt.Sprintf("%012d/", uint64(h)) }

// Handle writes a block to the bucket. It is an indexer.Handler.
func (w *Writer) Handle(ctx context.Context, m *indexer.Message) error {
	if m.Skipped != nil {
		return fmt.Errorf("%w: a lake contains only final blocks, and block %v was reverted", ErrBucket, m.Skipped[0])
	}
	text, err := m.JSON()
	if err != nil {
		return err
	}
	var parts struct {
		Block  json.RawMessage
		Shards []json.RawMessage
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	at := folder(m.Cursor.Height)
	errs := make([]error, len(parts.Shards))
	var all sync.WaitGroup
	for i, s := range parts.Shards {
		all.Go(func() {
			var id struct {
				Shard uint64 `json:"shard_id"`
			}
			if errs[i] = json.Unmarshal(s, &id); errs[i] == nil {
				errs[i] = w.put(ctx, at+"shard_"+strconv.FormatUint(id.Shard, 10)+".json", s)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return w.put(ctx, at+"block.json", parts.Block)
}

// put writes a JSON object with its members in alphabetical order, as in NEAR Lake.
func (w *Writer) put(ctx context.Context, key string, text []byte) error {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	body := bytes.TrimSuffix(out.Bytes(), []byte{'\n'})
	return w.try(ctx, "write "+key, func(ctx context.Context) error {
		_, err := w.c.PutObject(ctx, w.o.Bucket, key, bytes.NewReader(body), int64(len(body)),
			minio.PutObjectOptions{ContentType: "application/json", DisableMultipart: true})
		return err
	})
}

// halves is the maximum number of incomplete heights (without block.json) at the end of the bucket
// that Last skips. A crash leaves at most one.
const halves = 16

// Last returns the last complete block in the bucket; nil: there is none. Last makes some dozens of
// requests, independent of the number of blocks.
func (w *Writer) Last(ctx context.Context) (*indexer.Cursor, error) {
	below := ^primitives.Height(0)
	for range halves {
		h, ok, err := w.greatest(ctx, below)
		if err != nil || !ok {
			return nil, err
		}
		c, err := w.cursor(ctx, h)
		if c != nil || err != nil {
			return c, err
		}
		below = h
	}
	return nil, fmt.Errorf("%w: at its end more than %d heights have no block.json, the first at height %d", ErrBucket, halves-1, below)
}

// cursor returns the cursor of the block at a height; nil: the bucket has no block.json for that
// height.
func (w *Writer) cursor(ctx context.Context, h primitives.Height) (*indexer.Cursor, error) {
	var text []byte
	err := w.try(ctx, "read the last block", func(ctx context.Context) error {
		o, err := w.c.GetObject(ctx, w.o.Bucket, folder(h)+"block.json", minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer o.Close()
		text, err = io.ReadAll(o)
		if minio.ToErrorResponse(err).Code == "NoSuchKey" {
			text, err = nil, nil
		}
		return err
	})
	if err != nil || text == nil {
		return nil, err
	}
	var b struct{ Header indexer.BlockHeader }
	if err := json.Unmarshal(text, &b); err != nil || b.Header.Height != h {
		return nil, fmt.Errorf("%w: %sblock.json is not a block of that height: %.100q", ErrBucket, folder(h), text)
	}
	return &indexer.Cursor{Height: h, Hash: b.Header.Hash}, nil
}

// greatest returns the greatest height less than below at which the bucket has objects. ok is false
// if there is none.
func (w *Writer) greatest(ctx context.Context, below primitives.Height) (last primitives.Height, ok bool, err error) {
	at, ok, err := w.first(ctx, 0, below)
	if err != nil || !ok {
		return 0, false, err
	}
	last = at
	// Search with growing steps until nothing is found, then bisect the last step.
	for step := primitives.Height(1); ; {
		from := last + step
		if at, ok = 0, false; from > last && from < below {
			if at, ok, err = w.first(ctx, from, below); err != nil {
				return 0, false, err
			}
		}
		switch {
		case ok:
			last, step = at, 2*step
		case step == 1:
			return last, true, nil
		default:
			below, step = min(below, from), max(1, step/4)
		}
	}
}

// first returns the lowest height in [from, below) that has objects. ok is false if there is none.
func (w *Writer) first(ctx context.Context, from, below primitives.Height) (h primitives.Height, ok bool, err error) {
	after := strings.TrimSuffix(folder(from), "/") // this key sorts before the folder and after all lower heights
	err = w.try(ctx, "list the bucket", func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for o := range w.c.ListObjects(ctx, w.o.Bucket, minio.ListObjectsOptions{StartAfter: after, MaxKeys: 1}) {
			if o.Err != nil {
				return o.Err
			}
			name, _, isFolder := strings.Cut(o.Key, "/")
			n, err := strconv.ParseUint(name, 10, 64)
			if isFolder && err == nil && len(name) == 12 {
				h, ok = primitives.Height(n), primitives.Height(n) < below
				return nil
			}
			if name > "9" { // the remaining keys are not heights
				return nil
			}
		}
		return nil
	})
	return h, ok, err
}
