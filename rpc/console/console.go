// Package console is the page at /console: a hand-written browser application that shows the state
// of a node through its RPC.
//
//	in      names of files below /console/
//	out     the contents of the files, plain and compressed, with content type and ETag
//	state   none: the files in web/ are embedded in the binary
//	bound   300 kB for all files together
//	errors  an unknown name is nil
//	source  our own; no third-party code, fonts or pictures
//
// web/ has index.html, console.css and JavaScript modules, which the browser loads unbundled. The
// page inserts text from the chain or the node only as text (web/dom.js). Policy makes the browser
// reject any other insertion.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
	"sync"
)

//go:embed web
var web embed.FS

// Policy is the page's Content-Security-Policy. It allows only the page's own files and its own
// node. It forbids inline scripts, framing, and markup made from strings (trusted types).
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// File is one file of the page.
type File struct {
	Body, Packed []byte // Packed is the gzip form
	Type         string
	Tag          string // the ETag, which changes with Body
}

var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

var files = sync.OnceValue(func() map[string]*File {
	out := map[string]*File{}
	names, err := fs.Glob(web, "web/*")
	if err != nil {
		panic(err) // cannot fail: the pattern is valid
	}
	for _, name := range names {
		body, err := web.ReadFile(name)
		if err != nil {
			panic(err) // cannot fail: the file is embedded
		}
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // cannot fail: the level is valid
		_, _ = w.Write(body)                                       // writing to memory cannot fail
		_ = w.Close()
		sum := sha256.Sum256(body)
		out[path.Base(name)] = &File{Body: body, Packed: packed.Bytes(), Type: types[path.Ext(name)],
			Tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return out
})

// Get returns a file; nil if there is none. The empty name is the page itself.
func Get(name string) *File {
	if name == "" {
		name = "index.html"
	}
	return files()[name]
}
