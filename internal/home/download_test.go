package home

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ulikunitz/xz"

	"github.com/troupe-chain/troupe/primitives/genesis"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func xzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z, err := xz.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// serve answers with the text of a path.
func serve(t *testing.T, files map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[r.URL.Path]
		switch {
		case !ok:
			http.NotFound(w, r)
		case strings.HasPrefix(text, "-> "):
			http.Redirect(w, r, text[3:], http.StatusFound)
		default:
			_, _ = io.WriteString(w, text)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestFetchUnpacksAndBounds(t *testing.T) {
	packed, xzPacked := gzipped(t, strings.Repeat("a", 1000)), xzipped(t, strings.Repeat("a", 1000))
	url := serve(t, map[string]string{
		"/plain": "{}", "/empty": "", "/packed": packed, "/cut": packed[:len(packed)-9],
		"/xz": xzPacked, "/xzcut": xzPacked[:len(xzPacked)-9], "/xzbad": "\xfd7zXZ\x00...",
		"/moved": "-> /plain", "/round": "-> /round", "/exact": strings.Repeat("b", 100), "/more": strings.Repeat("b", 101),
	})
	for _, c := range []struct{ path, want, err string }{
		{"/plain", "{}", ""},
		{"/empty", "", ""},
		{"/moved", "{}", ""},
		{"/exact", strings.Repeat("b", 100), ""},
		{"/more", "", "more than 100 bytes"},
		{"/packed", "", "more than 100 bytes"}, // of what was unpacked
		{"/cut", "", "more than 100 bytes"},
		{"/xz", "", "more than 100 bytes"},
		{"/xzbad", "", "unexpected EOF"},
		{"/none", "", "404"},
		{"/round", "", "redirects more than 5 times"},
	} {
		var out bytes.Buffer
		err := NewDownloader().Fetch(t.Context(), url+c.path, &out, 100)
		if c.err == "" && (err != nil || out.String() != c.want) {
			t.Errorf("%s: output %q, error %v", c.path, out.String(), err)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), url+c.path)) {
			t.Errorf("%s: err = %v, want %q in it", c.path, err, c.err)
		}
	}
	for path, ok := range map[string]bool{"/packed": true, "/cut": false, "/xz": true, "/xzcut": false} {
		var out bytes.Buffer
		if err := NewDownloader().Fetch(t.Context(), url+path, &out, 1000); (err == nil) != ok {
			t.Errorf("%s: %d bytes, %v", path, out.Len(), err)
		}
	}
	for _, bad := range []string{"", "file:///etc/hostname", "ftp://a/b", "http://", "://", "genesis.json", "http://127.0.0.1:1/x"} {
		if err := NewDownloader().Fetch(t.Context(), bad, io.Discard, 100); err == nil {
			t.Errorf("Fetch(%q) passed", bad)
		}
	}
}

// bar counts what it is shown.
type bar struct {
	bytes.Buffer
	closed bool
}

func (b *bar) Close() error { b.closed = true; return nil }

func TestFetchReportsProgress(t *testing.T) {
	packed := gzipped(t, "text")
	url := serve(t, map[string]string{"/a": packed})
	var b bar
	var size int64
	d := NewDownloader()
	d.Progress = func(_ string, n int64) Progress { size = n; return &b }
	if err := d.Fetch(t.Context(), url+"/a", io.Discard, 100); err != nil {
		t.Fatal(err)
	}
	if size != int64(len(packed)) || b.String() != packed || !b.closed {
		t.Errorf("size %d, shown %d bytes of %d, closed %v", size, b.Len(), len(packed), b.closed)
	}
}

// TestStalledDownloadEndsWithError: a download from a server that sends some data and then nothing
// ends with an error.
func TestStalledDownloadEndsWithError(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "begin")
		w.(http.Flusher).Flush()
		<-release
	}))
	defer s.Close()
	defer close(release)
	for _, c := range []struct {
		idle, total time.Duration
		want        string
	}{{20 * time.Millisecond, time.Minute, "no data for 20ms"}, {time.Minute, 20 * time.Millisecond, "not complete after 20ms"}} {
		d := NewDownloader()
		d.Idle, d.Total = c.idle, c.total
		if err := d.Fetch(t.Context(), s.URL, io.Discard, 100); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("err = %v, want %q in it", err, c.want)
		}
	}
}

func TestRedirectAwayFromHTTPSIsRefused(t *testing.T) {
	from, err := http.NewRequest(http.MethodGet, "https://a/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	to, err := http.NewRequest(http.MethodGet, "http://a/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if sameSafety(to, []*http.Request{from}) == nil || sameSafety(from, []*http.Request{to}) != nil {
		t.Errorf("a redirect away from https must be refused, one towards it not")
	}
}

// TestInitDownloadsAllFiles fetches all three files from a local server, and tries broken ones.
func TestInitDownloadsAllFiles(t *testing.T) {
	whole := strings.Replace(mustRead(t, "testdata/init-plain/genesis.json"), "test-chain-plain", "testnet", 1)
	head, records, ok := strings.Cut(whole, ",\n  \"records\": ")
	if !ok {
		t.Fatal("the genesis has no records")
	}
	head += "\n}"
	records = strings.TrimSuffix(records, "\n}")
	url := serve(t, map[string]string{
		"/whole": whole, "/head": gzipped(t, head), "/records": gzipped(t, records), "/broken": whole[:500],
		"/poor":   strings.Replace(whole, `"total_supply": "2`, `"total_supply": "3`, 1),
		"/config": `{"genesis_records_file": "rec.json", "gc_num_epochs_to_keep": 9, "nework": {}, "telemetry": {"endpoints": ["https://mine"]}}`,
		"/wrong":  `{"archive": 1}`, "/other": mustRead(t, "testdata/init-plain/genesis.json"),
	})
	run := func(set func(*InitOptions)) (string, *InitResult, error) {
		o := options(t.TempDir())
		o.ChainID = "testnet"
		set(&o)
		r, err := Init(t.Context(), o)
		return o.Dir, r, err
	}
	t.Run("all three", func(t *testing.T) {
		dir, r, err := run(func(o *InitOptions) {
			o.GenesisURL, o.RecordsURL, o.ConfigURL, o.AccountID = url+"/head", url+"/records", url+"/config", "me.testnet"
		})
		if err != nil {
			t.Fatal(err)
		}
		if mustRead(t, dir, "genesis.json") != head || mustRead(t, dir, "rec.json") != records {
			t.Errorf("the files are not those of the server")
		}
		h, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if h.Config.GCEpochsToKeep != 9 || h.Paths.Records != filepath.Join(dir, "rec.json") || h.ValidatorKey.AccountID != "me.testnet" {
			t.Errorf("home = %+v", h.Paths)
		}
		if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, `did you mean "network"`) {
			t.Errorf("notes = %s", notes)
		}
		if text := mustRead(t, dir, "config.json"); !strings.Contains(text, "\"https://mine\",\n      \""+telemetryURL) {
			t.Errorf("config.json = %s", text)
		}
		n := 0
		if err := h.Records(func(genesis.Record) error { n++; return nil }); err != nil || n != 4 {
			t.Errorf("%d records, %v", n, err)
		}
	})
	t.Run("genesis alone", func(t *testing.T) {
		dir, r, err := run(func(o *InitOptions) { o.GenesisURL = url + "/whole" })
		if err != nil || mustRead(t, dir, "genesis.json") != whole || r.Validator != nil {
			t.Errorf("got %+v, error %v", r, err)
		}
	})
	t.Run("records named by the flag", func(t *testing.T) {
		dir, _, err := run(func(o *InitOptions) { o.GenesisURL, o.RecordsURL = url+"/head", url+"/records" })
		if err != nil || mustRead(t, dir, "records.json") != records {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct {
		set  func(*InitOptions)
		want string
	}{
		"no such genesis":   {func(o *InitOptions) { o.GenesisURL = url + "/none" }, "404"},
		"broken genesis":    {func(o *InitOptions) { o.GenesisURL = url + "/broken" }, "is not a valid genesis"},
		"wrong supply":      {func(o *InitOptions) { o.GenesisURL = url + "/poor" }, "total supply"},
		"another chain":     {func(o *InitOptions) { o.GenesisURL = url + "/other" }, `"test-chain-plain", not of --chain-id "testnet"`},
		"records missing":   {func(o *InitOptions) { o.GenesisURL = url + "/head" }, "missing field: records"},
		"records not named": {func(o *InitOptions) { o.GenesisURL, o.ConfigURL = url+"/head", url+"/config" }, "--download-records-url"},
		"wrong config":      {func(o *InitOptions) { o.GenesisURL, o.ConfigURL = url+"/whole", url+"/wrong" }, "archive is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _, err := run(c.set)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want %q in it", err, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	if _, _, err := run(func(o *InitOptions) { o.GenesisURL = "http://127.0.0.1:1/" }); err == nil || errors.Is(err, ErrUsage) {
		t.Errorf("err = %v", err)
	}
}
