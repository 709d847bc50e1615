package localnet

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"syscall"

	"github.com/troupe-chain/troupe/internal/txtext"
)

// Bounds of the displayed log.
const (
	maxTail    = 512 << 10 // number of bytes that are read from the end of the log
	maxLogLine = 4096      // maximum size of a line in bytes
)

// colors are the escape sequences that neard writes around words of its log.
var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// readLog returns the last lines of a node's log, escaped for the terminal. If the node has just
// started a new log file, lines of the previous file come first.
func readLog(path string) ([]string, error) {
	text, whole, err := readTail(path, maxTail)
	if err != nil {
		return nil, err
	}
	if room := maxTail - len(text); whole && room > 0 {
		before, _, err := readTail(path+".1", int64(room))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		text = append(before, text...)
	}
	var lines []string
	for line := range bytes.Lines(text) {
		line = colors.ReplaceAll(bytes.TrimRight(line, "\r\n"), nil)
		lines = append(lines, txtext.Line(string(line), maxLogLine))
	}
	return lines, nil
}

// readTail returns at most limit bytes from the end of a file. readTail drops an incomplete first
// line. whole says whether the result is the whole file.
func readTail(path string, limit int64) (text []byte, whole bool, err error) {
	// O_NONBLOCK, so that opening a pipe without a writer does not block.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	from := max(info.Size()-limit, 0)
	text, err = io.ReadAll(io.NewSectionReader(f, from, limit))
	if err != nil {
		return nil, false, err
	}
	if from > 0 {
		_, text, _ = bytes.Cut(text, []byte{'\n'})
	}
	return text, from == 0, nil
}
