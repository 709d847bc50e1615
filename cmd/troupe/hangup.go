package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// hangupGrace is how long after SIGHUP the terminal is looked at once more: a program that closes
// one may send the signal first.
const hangupGrace = time.Second

// hangups passes SIGHUP on, which has a node read its files again, until the terminal that the
// process was started from is closed: then the context ends. A process without a terminal, as under
// systemd, and one that was told to ignore SIGHUP (nohup) only pass it on.
func hangups(ctx context.Context) (_ context.Context, hup <-chan os.Signal, stop func()) {
	ignored := signal.Ignored(syscall.SIGHUP)
	in, out := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(in, syscall.SIGHUP) // from the beginning, so that none ends the process
	ctx, cancel := context.WithCancel(ctx)
	gone := func() bool { return false }
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err == nil && !ignored {
		gone = func() bool { return !term.IsTerminal(int(tty.Fd())) } // EIO from when it is hung up
	}
	go func() {
		var later <-chan time.Time
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-in:
				if gone() {
					cancel()
					return
				}
				select {
				case out <- s:
				default: // one waits already
				}
				later = time.After(hangupGrace)
			case <-later:
				later = nil
				if gone() {
					cancel()
					return
				}
			}
		}
	}()
	return ctx, out, func() {
		signal.Stop(in)
		cancel()
		if tty != nil {
			_ = tty.Close()
		}
	}
}
