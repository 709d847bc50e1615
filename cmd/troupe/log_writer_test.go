package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// TestLogDoesNotWaitForStalledReader: a log into a full pipe does not wait. What is lost is
// counted, and later lines are written again.
func TestLogDoesNotWaitForStalledReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	a := &app{home: t.TempDir()}
	log, err := newLog(w, a)
	if err != nil {
		t.Fatal(err)
	}
	const lines = 5000
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		for range lines {
			log.Info(strings.Repeat("x", 1000))
		}
	}()
	select {
	case <-wrote:
	case <-time.After(time.Minute):
		t.Fatal("the log waits for its reader")
	}
	text := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		text <- string(b)
	}()
	l := log.Out.(*logWriter)
	for drained := false; !drained; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		drained = len(l.queue) == 0 && l.dropped == 0
		l.mu.Unlock()
	}
	log.Warn("the end")
	a.closeLog()
	log.Warn("too late")
	_ = w.Close()
	got := <-text
	if n := strings.Count(got, "level=info"); n == 0 || n >= lines {
		t.Errorf("%d of %d lines", n, lines)
	}
	if !strings.Contains(got, " lines of the log are lost: stderr took nothing\n") ||
		!strings.HasSuffix(got, "level=warning msg=\"the end\"\n") {
		t.Errorf("the output ends with %q", got[max(0, len(got)-300):])
	}
}

// TestLogCloseDoesNotWaitForReader: it does not wait for a reader that takes nothing.
func TestLogCloseDoesNotWaitForReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := newLogWriter(w)
	for range 100 {
		_, _ = l.Write(make([]byte, 10<<10))
	}
	closed := make(chan struct{})
	go func() {
		l.close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("close waits for the reader")
	}
	_ = r.Close()
	<-l.done
	_ = w.Close()
}

// TestLogEscapesControlCharacters: a peer's or a server's text in a message cannot control the
// terminal.
func TestLogEscapesControlCharacters(t *testing.T) {
	for _, color := range []string{"always", "never"} {
		var b strings.Builder
		log, err := newLog(&b, &app{home: t.TempDir(), color: color})
		if err != nil {
			t.Fatal(err)
		}
		log.WithError(io.ErrUnexpectedEOF).Warn("peer says \x1b]0;title\x07\u202e\nINFO forged")
		log.WithField("of", "\x1b[2J").Info("field")
		for _, bad := range []string{"\x07", "\u202e", "\x1b]", "\x1b[2J", "\nINFO"} {
			if strings.Contains(b.String(), bad) {
				t.Errorf("%s: %q in %q", color, bad, b.String())
			}
		}
		if !strings.Contains(b.String(), "peer says") || strings.Count(b.String(), "\n") != 2 {
			t.Errorf("%s: got %q", color, b.String())
		}
		if l := logrus.InfoLevel; log.GetLevel() != l {
			t.Errorf("level %v", log.GetLevel())
		}
	}
}
