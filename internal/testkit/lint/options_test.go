package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documented are the folders in which every field of an options struct has a comment.
const documented = "actors engine consensus storage net/near rpc sandbox internal/daemon"

var (
	optionsName = regexp.MustCompile(`(Options|Config)$`)
	testsOnly   = regexp.MustCompile(`(?i)\b(only (for|in) tests|for tests only|tests (only )?(replace|set))\b`)
)

// TestOptionFieldsAreDocumented: every exported field of a struct Options or Config, of which
// callers see only the names, has a comment with its meaning and zero value.
func TestOptionFieldsAreDocumented(t *testing.T) {
	structs, fields := 0, 0
	for _, p := range packages(t) {
		if !within(strings.TrimSuffix(folder(p.ImportPath), "/"), documented) {
			continue
		}
		for _, file := range p.GoFiles {
			f, fset := parse(t, filepath.Join(p.Dir, file), parser.ParseComments)
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				s, ok := spec.Type.(*ast.StructType)
				if !ok || !spec.Name.IsExported() || !optionsName.MatchString(spec.Name.Name) {
					return true
				}
				structs++
				for _, field := range s.Fields.List {
					if !exported(field) {
						continue
					}
					if fields++; strings.TrimSpace(field.Doc.Text()+field.Comment.Text()) == "" {
						t.Errorf("%s: a field of %s has no comment with its meaning, unit and zero value", fset.Position(field.Pos()), spec.Name.Name)
					}
				}
				return true
			})
		}
	}
	if structs < 20 || fields < 200 {
		t.Errorf("only %d structs with %d fields", structs, fields)
	}
}

// exported returns whether a field has an exported name, or is embedded.
func exported(field *ast.Field) bool {
	for _, name := range field.Names {
		if name.IsExported() {
			return true
		}
	}
	return len(field.Names) == 0
}

// TestTestHooksAreInHooks: functions and package variables that only tests set are fields of a
// struct Hooks, one for each package, and not scattered over its options.
func TestTestHooksAreInHooks(t *testing.T) {
	hooks := 0
	for _, p := range packages(t) {
		for _, file := range p.GoFiles {
			f, fset := parse(t, filepath.Join(p.Dir, file), parser.ParseComments)
			if strings.HasPrefix(folder(p.ImportPath), "internal/testkit/") {
				continue
			}
			for _, d := range f.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range g.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						if g.Tok == token.VAR && testsOnly.MatchString(g.Doc.Text()+spec.Doc.Text()+spec.Comment.Text()) {
							t.Errorf("%s: a variable that only tests set belongs into a struct Hooks", fset.Position(spec.Pos()))
						}
					case *ast.TypeSpec:
						s, ok := spec.Type.(*ast.StructType)
						if !ok {
							continue
						}
						if spec.Name.Name == "Hooks" {
							hooks++
							continue
						}
						for _, field := range s.Fields.List {
							if _, function := field.Type.(*ast.FuncType); function && testsOnly.MatchString(field.Doc.Text()+field.Comment.Text()) {
								t.Errorf("%s: a function that only tests set belongs into a struct Hooks", fset.Position(field.Pos()))
							}
						}
					}
				}
			}
		}
	}
	if hooks < 6 {
		t.Errorf("%d structs named Hooks, want at least 6", hooks)
	}
}
