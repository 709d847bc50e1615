// Package main is the command troupe: a NEAR node on one machine.
//
//	in      flags, named as neard's where neard has the same; NEAR_HOME
//	out     results on stdout, one per line; errors on stderr; files in the home folder
//	state   only the home folder
//	errors  exit code 0: success; 1: the command failed; 2: the command line is wrong
//	source  nearcore neard/src/cli.rs
//
// A command is a file with a func(*app) *cobra.Command, listed in commands.
package main

import (
	"os"
	"runtime"
)

// init keeps the process's first thread from running other goroutines. ulimit -s limits the stack
// of this thread, so the stack may be too small for contracts.
func init() { runtime.LockOSThread() }

func main() {
	code := make(chan int)
	go func() { code <- execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }()
	os.Exit(<-code)
}
