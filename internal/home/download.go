package home

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/ulikunitz/xz"
)

// deployURL is the folder of neard's own downloads (nearcore nearcore/src/config.rs,
// get_genesis_url and its neighbours).
const deployURL = "https://s3-us-west-1.amazonaws.com/build.nearprotocol.com/nearcore-deploy/"

func genesisURL(chainID string) string      { return deployURL + chainID + "/genesis.json.xz" }
func recordsURL(chainID string) string      { return deployURL + chainID + "/records.json.xz" }
func configURL(chainID, kind string) string { return deployURL + chainID + "/" + kind + "/config.json" }

// maxGenesis is the maximum unpacked size in bytes of a downloaded genesis or records file.
// Testnet's records are some gigabytes.
const maxGenesis = 16 << 30

// Progress shows a download. Write is called with the data that arrives.
type Progress interface{ io.WriteCloser }

// Downloader fetches files over HTTP.
type Downloader struct {
	Client *http.Client
	Idle   time.Duration // longest time without a received byte
	Total  time.Duration // longest time for one file
	// Progress makes the bar of one download; size is -1 if the server does not say. Nil: no bar.
	Progress func(url string, size int64) Progress
}

// NewDownloader returns a downloader with limits for slow lines and a genesis of gigabytes.
func NewDownloader() *Downloader {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // so that Content-Length is the length of the file; unpack recognises compression itself
	transport.ResponseHeaderTimeout = 30 * time.Second
	return &Downloader{
		Client: &http.Client{Transport: transport, CheckRedirect: sameSafety},
		Idle:   30 * time.Second, Total: 6 * time.Hour,
	}
}

// sameSafety allows at most five redirects, and none from https to http.
func sameSafety(r *http.Request, via []*http.Request) error {
	if len(via) > 5 {
		return errors.New("the server redirects more than 5 times")
	}
	if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
		return fmt.Errorf("the server redirects from https to %s, which is refused", r.URL.Scheme)
	}
	return nil
}

// Fetch copies the content of a URL to w. Fetch unpacks gzip and xz, and fails above limit bytes of
// unpacked content.
func (d *Downloader) Fetch(ctx context.Context, from string, w io.Writer, limit int64) error {
	if err := d.fetch(ctx, from, w, limit); err != nil {
		return fmt.Errorf("download %s: %w", from, err)
	}
	return nil
}

func (d *Downloader) fetch(ctx context.Context, from string, w io.Writer, limit int64) (err error) {
	u, err := url.Parse(from)
	if err != nil {
		return errors.New("this is not a URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("the URL must begin with http:// or https://")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	total := time.AfterFunc(d.Total, func() { cancel(fmt.Errorf("the download is not complete after %v", d.Total)) })
	defer total.Stop()
	idle := time.AfterFunc(d.Idle, func() { cancel(fmt.Errorf("the server sent no data for %v", d.Idle)) })
	defer idle.Stop()
	defer func() { // the cause says more than "context canceled"
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := d.Client.Do(req)
	if err != nil {
		var u *url.Error // the text of a url.Error repeats the URL
		if errors.As(err, &u) {
			return u.Err
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	body := io.Reader(&watched{resp.Body, func() { idle.Reset(d.Idle) }})
	if d.Progress != nil {
		bar := d.Progress(from, resp.ContentLength)
		defer func() { _ = bar.Close() }()
		body = io.TeeReader(body, bar)
	}
	return unpack(w, body, limit)
}

// watched calls seen after every read that returned data.
type watched struct {
	io.Reader
	seen func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.seen()
	}
	return n, err
}

// Magic numbers at the start of packed files.
var (
	gzipMark = []byte{0x1f, 0x8b}
	xzMark   = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
)

// unpack copies r to w and unpacks gzip or xz. More than limit bytes of unpacked content are an
// error, whatever the packed size.
func unpack(w io.Writer, r io.Reader, limit int64) error {
	in := bufio.NewReaderSize(r, 64<<10)
	mark, err := in.Peek(len(xzMark))
	if err != nil && err != io.EOF {
		return err
	}
	content := io.Reader(in)
	switch {
	case bytes.HasPrefix(mark, gzipMark):
		z, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		content = z
	case bytes.Equal(mark, xzMark):
		z, err := xz.NewReader(in)
		if err != nil {
			return err
		}
		content = z
	}
	n, err := io.Copy(w, io.LimitReader(content, limit))
	if err != nil {
		return err
	}
	if n == limit {
		more, err := io.ReadFull(content, make([]byte, 1))
		if more > 0 {
			return fmt.Errorf("the content has more than %d bytes, the limit", limit)
		}
		if err != io.EOF {
			return err
		}
	}
	return nil
}
