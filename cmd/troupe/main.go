// Package main is the command troupe: a NEAR node on one machine.
//
//	in      flags, as neard has them where it has the same; NEAR_HOME
//	out     results on stdout, one thing a line; what went wrong on stderr; files in the home
//	        folder
//	state   none but the home folder
//	errors  exit code 0: done; 1: it failed; 2: the command line is wrong
//	source  nearcore neard/src/cli.rs
//
// A command is a file with a func(*app) *cobra.Command, listed in commands.
package main

import (
	"os"
	"runtime"
)

// The process's first thread is left alone: its stack is as large as the shell's limit says, which
// contracts may not fit into.
func init() { runtime.LockOSThread() }

func main() {
	code := make(chan int)
	go func() { code <- execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }()
	os.Exit(<-code)
}
