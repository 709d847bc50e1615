package main

import (
	"io"
	"os"
	"path"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/troupe-chain/troupe/internal/home"
)

// newProgress returns a function that shows a download bar, or nil if w is not a terminal: bars
// would fill a log file.
func newProgress(w io.Writer) func(url string, size int64) home.Progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func(url string, size int64) home.Progress {
		return progressbar.NewOptions64(size,
			progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(path.Base(url)), progressbar.OptionShowBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionFullWidth(), progressbar.OptionShowCount(),
			progressbar.OptionOnCompletion(func() { _, _ = io.WriteString(w, "\n") }))
	}
}
