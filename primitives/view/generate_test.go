package view

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write structs.go again")

// structMember is one line of structs.txt.
type structMember struct {
	name, call string // call is empty if json is set
	json       string // the value, if it is always the same
	null, only string // conditions; empty: none
}

// parseMember parses a line such as `nonce  appendUint(g.Nonce) if g.V2`.
func parseMember(line string) (m structMember) {
	m.name, line, _ = strings.Cut(strings.TrimSpace(line), " ")
	line = strings.TrimSpace(line)
	if rest, condition, ok := strings.Cut(line, " null if "); ok {
		line, m.null = rest, condition
	} else if rest, condition, ok := strings.Cut(line, " if "); ok {
		line, m.only = rest, condition
	}
	if json, ok := strings.CutPrefix(line, "= "); ok {
		m.json = json
	} else {
		m.call = line
	}
	return m
}

// appendMembers appends statements that write the members in the order given.
func appendMembers(b []byte, all []structMember) []byte {
	uncertain := all[0].only != "" // then each has a comma, and the brace replaces the first one
	if uncertain {
		b = append(b, "start := len(b)\n"...)
	}
	text := "" // what is written before the next value
	for i, m := range all {
		separator := ","
		if i == 0 && !uncertain {
			separator = "{"
		}
		if (m.only != "" || m.null != "") && text != "" {
			b = fmt.Appendf(b, "b = append(b, `%s`...)\n", text)
			text = ""
		}
		text += separator + `"` + m.name + `":` + m.json
		write := func() {
			function, arguments, _ := strings.Cut(m.call, "(")
			b = fmt.Appendf(b, "b = %s(append(b, `%s`...), %s\n", function, text, arguments)
			text = ""
		}
		switch {
		case m.only != "":
			if i > 0 && m.only == all[i-1].only {
				b = b[:len(b)-len("}\n")]
			} else {
				b = fmt.Appendf(b, "if %s {\n", m.only)
			}
			if m.json != "" {
				b = fmt.Appendf(b, "b = append(b, `%s`...)\n", text)
				text = ""
			} else {
				write()
			}
			b = append(b, "}\n"...)
		case m.null != "":
			b = fmt.Appendf(b, "if %s {\nb = append(b, `%snull`...)\n} else {\n", m.null, text)
			write()
			b = append(b, "}\n"...)
		case m.json == "":
			write()
		}
	}
	if uncertain {
		b = append(b, "b[start] = '{'\n"...)
	}
	if text != "" {
		return fmt.Appendf(b, "return append(b, `%s}`...)\n", text)
	}
	return append(b, "return append(b, '}')\n"...)
}

// appendMethod appends the method of a struct.
func appendMethod(b []byte, comment []string, signature string, declared []structMember) []byte {
	name, parameters, _ := strings.Cut(signature, "(")
	if comment == nil {
		comment = []string{name + " appends the struct of that name."}
	}
	for _, line := range comment {
		b = append(append(append(b, "// "...), line...), '\n')
	}
	b = fmt.Appendf(b, "func (e *Encoder) %s(b []byte, %s []byte {\n", name, parameters)
	sorted := slices.SortedStableFunc(slices.Values(declared), func(x, y structMember) int { return strings.Compare(x.name, y.name) })
	if !slices.Equal(sorted, declared) {
		b = append(appendMembers(append(b, "if e.order == StructOrder {\n"...), declared), "}\n"...)
	}
	return append(appendMembers(b, sorted), "}\n\n"...)
}

// TestStructsAreGenerated: structs.go is what structs.txt describes.
func TestStructsAreGenerated(t *testing.T) {
	table, err := os.ReadFile("structs.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := []byte("// Code generated from structs.txt by generate_test.go; DO NOT EDIT.\n\npackage view\n\nimport \"github.com/troupe-chain/troupe/primitives\"\n\n")
	_, text, _ := strings.Cut(string(table), "\n\n") // the introduction
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		var comment []string
		signature := ""
		var declared []structMember
		for line := range strings.SplitSeq(block, "\n") {
			switch {
			case strings.HasPrefix(line, "#"):
				comment = append(comment, strings.TrimPrefix(line, "# "))
			case strings.HasPrefix(line, "\t"):
				m := parseMember(line)
				if slices.ContainsFunc(declared, func(o structMember) bool { return o.name == m.name }) {
					t.Fatalf("%s: %s twice", signature, m.name)
				}
				declared = append(declared, m)
			default:
				signature = line
			}
		}
		out = appendMethod(out, comment, signature, declared)
	}
	if out, err = format.Source(out); err != nil {
		t.Fatal(err)
	}
	const path = "structs.go"
	if *update {
		if err := os.WriteFile(path, out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, out) {
		t.Errorf("%s is not up to date (%v): run the command of structs.txt", path, err)
	}
}
