package localnet

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Terminal shows a full screen until Close.
type Terminal struct {
	in, out *os.File
	before  *term.State
	Keys    chan []byte
	last    string
}

// OpenTerminal takes over the terminal of in and out. OpenTerminal returns false if in and out are
// not a terminal.
func OpenTerminal(in, out *os.File) (*Terminal, bool) {
	if !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil, false
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, false
	}
	t := &Terminal{in: in, out: out, before: before, Keys: make(chan []byte)}
	// switch to the alternate screen, without cursor and line wraps
	_, _ = io.WriteString(out, "\x1b[?1049h\x1b[?25l\x1b[?7l")
	go t.read()
	return t, true
}

// read returns only when the process ends, because a read from a terminal cannot be cancelled.
func (t *Terminal) read() {
	for {
		buf := make([]byte, 64)
		n, err := t.in.Read(buf)
		if err != nil {
			close(t.Keys)
			return
		}
		t.Keys <- buf[:n]
	}
}

// Size returns the columns and lines.
func (t *Terminal) Size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		return 80, 24
	}
	return width, height
}

// Draw shows lines. If the lines are unchanged, Draw does nothing.
func (t *Terminal) Draw(lines []string) {
	text := frame(lines)
	if text == t.last {
		return
	}
	t.last = text
	_, _ = io.WriteString(t.out, text)
}

// frame returns the output that draws lines over the current lines. The title and the selected node
// are bold.
func frame(lines []string) string {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if i == 0 || strings.HasPrefix(l, ">") {
			l = "\x1b[1m" + l + "\x1b[0m"
		}
		b.WriteString(l + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	return b.String()
}

// Close restores the terminal.
func (t *Terminal) Close() {
	_, _ = io.WriteString(t.out, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	_ = term.Restore(int(t.in.Fd()), t.before)
}
