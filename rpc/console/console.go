// Package console is the page at /console: a program of the browser's, written by hand, that shows
// what a node does by what its RPC answers.
//
//	in      names of files below /console/
//	out     their bytes, as they are and compressed, with type and tag
//	state   none: what is in web/ is part of the binary
//	bound   the files together, some 100 KiB
//	errors  a name that there is not is nil
//	source  our own; no code, fonts or pictures of others
//
// web/ has the page: index.html, console.css, and modules, which the browser loads as they are.
// What comes of the chain or of the node gets into the page as text only (web/dom.js), and the
// Policy has the browser refuse all else.
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

// Policy is the Content-Security-Policy of the page: nothing but its own files and its own node, no
// script in the text, no frame around it, and no way from a string to markup (trusted types).
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// File is one of the page's.
type File struct {
	Body, Packed []byte // Packed: by gzip
	Type         string
	Tag          string // of HTTP: changes with the body
}

var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

var files = sync.OnceValue(func() map[string]*File {
	out := map[string]*File{}
	names, err := fs.Glob(web, "web/*")
	if err != nil {
		panic(err) // the pattern is a good one
	}
	for _, name := range names {
		body, err := web.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level exists
		_, _ = w.Write(body)                                       // memory does not fail
		_ = w.Close()
		sum := sha256.Sum256(body)
		out[path.Base(name)] = &File{Body: body, Packed: packed.Bytes(), Type: types[path.Ext(name)], Tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return out
})

// Get returns a file; the page itself has no name. nil: there is none.
func Get(name string) *File {
	if name == "" {
		name = "index.html"
	}
	return files()[name]
}
