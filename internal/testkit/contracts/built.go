package contracts

import (
	"embed"
	"fmt"
)

// The contracts in C, built, and the list of what they were built from.
//
//go:embed c/*.wasm c/BUILT
var built embed.FS

// Source is a contract in C: its name, its file, and the macros defined for it.
type Source struct {
	Name, File string
	Defines    []string
}

// Sources are all contracts in C.
var Sources = []Source{
	{"ft", "ft.c", nil},
	{"ft2", "ft.c", []string{"-DFT_VERSION=2"}},
	{"defi", "defi.c", nil},
	{"caller", "caller.c", nil},
	{"factory", "factory.c", nil},
	{"yielder", "yielder.c", nil},
	{"hog", "hog.c", nil},
	{"burner", "burner.c", nil},
	{"panicker", "panicker.c", nil},
}

// Flags are the flags of clang without macros, output and source file. The memory has the size
// that the protocol gives to every contract. The names of functions are kept for profiles.
var Flags = []string{
	"--target=wasm32", "-O2", "-std=c11", "-ffreestanding", "-fno-builtin", "-nostdlib",
	"-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-missing-field-initializers",
	"-Wl,--no-entry,--strip-debug,--stack-first,--initial-memory=67108864,-z,stack-size=65536",
}

// C returns the wasm of a contract in C.
func C(name string) []byte {
	b, err := built.ReadFile("c/" + name + ".wasm")
	if err != nil {
		panic(fmt.Sprintf("contracts: no contract %q in C", name))
	}
	return b
}

// BuiltFrom returns the list that the build wrote: the compiler, its flags, and the SHA-256 of
// every source and result.
func BuiltFrom() string {
	b, err := built.ReadFile("c/BUILT")
	if err != nil {
		panic(err) // cannot fail: the file is embedded
	}
	return string(b)
}
