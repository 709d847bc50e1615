package view

import (
	"encoding/json"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// AppendMissingImports appends a JSON list of missing imports.
func AppendMissingImports(b []byte, list []primitives.MissingImport) []byte {
	return appendList(b, list, func(b []byte, m *primitives.MissingImport) []byte {
		return append(appendMissingImport(append(b, '{'), m), '}')
	})
}

// appendMissingImport appends the members of a missing import, without braces.
// since_protocol_version is null if no version is known that has the function. types is absent
// unless the function exists with another type.
func appendMissingImport(b []byte, m *primitives.MissingImport) []byte {
	b = AppendString(append(b, `"module":`...), m.Module)
	b = AppendString(append(b, `,"name":`...), m.Name)
	b = append(b, `,"since_protocol_version":`...)
	if m.Since == 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendUint(b, uint64(m.Since), 10)
	}
	if m.Types != "" {
		b = AppendString(append(b, `,"types":`...), m.Types)
	}
	return b
}

// ParseMissingImports reads what AppendMissingImports writes.
func ParseMissingImports(b []byte) ([]primitives.MissingImport, error) {
	var list []struct {
		Module string                     `json:"module"`
		Name   string                     `json:"name"`
		Since  primitives.ProtocolVersion `json:"since_protocol_version"` // null is read as 0
		Types  string                     `json:"types"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	var out []primitives.MissingImport
	for _, m := range list {
		out = append(out, primitives.MissingImport{Module: m.Module, Name: m.Name, Since: m.Since, Types: m.Types})
	}
	return out, nil
}
