package main

import (
	"os"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == compilerName { // this binary is what compilerCommand starts
		os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if os.Getenv(asCommand) != "" { // and what the recipes call troupe
		os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestCompilerRunsInChildProcess: a running node starts a child process that compiles.
func TestCompilerRunsInChildProcess(t *testing.T) {
	if compiler.Self == "" {
		t.Skip("this system has no children that compile")
	}
	v, err := vm.New(vm.Options{Compiler: compilerCommand(), Alarm: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	<-v.Warm(action.CodeFrom{Submitter: "ft.near"}, contracts.C("ft"), &parameters.MustGet(parameters.June(86)).Wasm)
	if s := v.Stats(); s.Builds != 1 || s.Failures != 0 || s.Compiler.Started != 1 || s.Compiler.InProcess != 0 {
		t.Errorf("got %+v", s)
	}
}
