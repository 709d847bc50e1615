package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// hangupGrace is the time after SIGHUP at which the terminal is checked a second time. A program
// that closes a terminal may send the signal before the terminal is closed.
const hangupGrace = time.Second

// hangups forwards SIGHUP, on which a node reloads its configuration. If the terminal that started
// the process was closed, hangups cancels the returned context instead. If the process has no
// terminal, as under systemd, or was started with SIGHUP ignored (nohup), hangups always forwards.
// stop releases the resources of hangups.
func hangups(ctx context.Context) (_ context.Context, hup <-chan os.Signal, stop func()) {
	ignored := signal.Ignored(syscall.SIGHUP)
	in, out := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(in, syscall.SIGHUP) // register before anything else, so that SIGHUP does not end the process
	ctx, cancel := context.WithCancel(ctx)
	gone := func() bool { return false }
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err == nil && !ignored {
		// After the terminal has disconnected, the system call in IsTerminal fails with EIO, so
		// IsTerminal returns false.
		gone = func() bool { return !term.IsTerminal(int(tty.Fd())) }
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
				default: // a reload is already pending
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
