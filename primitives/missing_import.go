package primitives

import (
	"fmt"
	"strings"
)

// MissingImport is an import of a contract that the protocol version in force does not have. When
// such a contract is called, nearcore's outcome is a link error that does not name the import.
type MissingImport struct {
	Module string
	Name   string // shortened by ImportName
	// Since is the first protocol version of nearcore's releases that has a function of this name;
	// 0: this node knows no such version.
	Since ProtocolVersion
	// Types is how the function's type differs, in wasmtime's words. It is empty if there is no
	// function of this name.
	Types string
}

// String returns e.g. "env.sha3_256 (since protocol version 87)".
func (m *MissingImport) String() string {
	name := m.Module + "." + m.Name
	switch {
	case m.Types != "":
		return fmt.Sprintf("%s (%s)", name, m.Types)
	case m.Since != 0:
		return fmt.Sprintf("%s (since protocol version %d)", name, m.Since)
	}
	return name + " (no known protocol version has it)"
}

// maxImportName is the length in bytes of the longest name that ImportName keeps.
const maxImportName = 120

// ImportName returns a name of at most 120 bytes, since a contract can choose a very long one.
func ImportName(name string) string {
	if len(name) <= maxImportName {
		return name
	}
	return strings.ToValidUTF8(name[:maxImportName-len("...")], "") + "..."
}
