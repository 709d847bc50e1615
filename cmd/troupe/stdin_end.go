package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

// addExitWithStdin adds the flag --exit-with-stdin.
func addExitWithStdin(c *cobra.Command, on *bool) {
	c.Flags().BoolVar(on, "exit-with-stdin", false, "stop when stdin ends; for a program that starts the node with a pipe as its stdin")
}

// untilEnd returns a context that is canceled when in ends or cannot be read. untilEnd discards the
// contents of in. A program that starts the node passes it the read end of a pipe and keeps the
// write end open. The kernel closes that end when the program ends, even by SIGKILL. stop cancels
// the context. The reading goroutine ends when in ends.
func untilEnd(ctx context.Context, in io.Reader) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel
}
