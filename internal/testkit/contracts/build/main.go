// Command build compiles the C contracts and lists the files and flags they were built from. `make
// contracts` runs it.
//
//	in      the folder c with the sources; clang and wasm-ld (Debian: clang, lld)
//	out     c/NAME.wasm, c/BUILT
//	state   none
//	units   SHA-256 in hex
//	bound   the list contracts.Sources
//	errors  the output of clang; exit code 1
//	source  internal/testkit/contracts
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: build FOLDER")
		os.Exit(1)
	}
	if err := build(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func build(dir string) error {
	version, err := exec.Command("clang", "--version").Output()
	if err != nil {
		return fmt.Errorf("run clang (install it; Debian packages clang and lld): %w", err)
	}
	for _, s := range contracts.Sources {
		args := append(slices.Clone(contracts.Flags), s.Defines...)
		args = append(args, "-o", s.Name+".wasm", s.File)
		c := exec.Command("clang", args...)
		c.Dir, c.Stdout, c.Stderr = dir, os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("compile %s: %w", s.File, err)
		}
		if err := os.Chmod(filepath.Join(dir, s.Name+".wasm"), 0o644); err != nil {
			return err
		}
	}
	first, _, _ := strings.Cut(string(version), "\n")
	list := first + "\n" + strings.Join(contracts.Flags, " ") + "\n"
	files, err := filepath.Glob(filepath.Join(dir, "*.*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		list += fmt.Sprintf("%x  %s\n", sha256.Sum256(b), filepath.Base(f))
	}
	return os.WriteFile(filepath.Join(dir, "BUILT"), []byte(list), 0o644)
}
