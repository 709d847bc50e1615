package lint

import (
	"go/ast"
	"go/parser"
	"path/filepath"
	"strings"
	"testing"
)

// maxFunctions is the maximum number of function fields of a struct. A struct with more of them is
// an interface without a name, and what implements it cannot be found.
const maxFunctions = 2

// bundles are the structs that may have more function fields, and why. Structs named Hooks or Events
// may too: each of their fields is optional, and a nil field is skipped.
var bundles = map[string]string{
	"chain.ValidationContext":          "pure checks with a default; a replaced one is a cache of the same result",
	"runtime/apply.PrepareInput":       "pure checks of one call, not kept",
	"engine.Options":                   "independent settings with defaults: pure checks, the clock, the choice of shards",
	"consensus.Options":                "independent settings with defaults: clock, timer, randomness, and what the shell knows of peers and signatures",
	"actors/validator.Options":         "the settings that it passes on to consensus.Options",
	"actors/node.Options":              "independent settings with defaults: clock, process and observers",
	"internal/daemon.Options":          "two observers, and the records to add to a new genesis",
	"internal/home.LocalnetOptions":    "clock and port check, which tests replace, and an editor of one file",
	"internal/localnet.Options":        "the screen of one terminal",
	"rpc.Options":                      "three texts that the node adds to pages, each optional",
	"rpc.WorldOptions":                 "those of rpc.Options for a world, and its count of requests",
	"rpc.outbox":                       "the socket's write and what it costs; tests replace single ones",
	"net/near/tcp.Server":              "the two receivers given to New, and optional observers",
	"net/jetstream.ResponderOptions":   "the answers of the node to three independent requests, and the signature",
	"net/jetstream.PublisherOptions":   "clock, signature and an observer",
	"runtime/vm/compiler.Options":      "compilation in this process, limits that tests replace, and an observer",
	"runtime/vm/compiler.Job":          "the steps of one compilation, bound to its arguments",
	"storage/trie.Source":              "readers of one moment of the store, bound to it; three of them are optional",
	"messages.Turn":                    "the callbacks of one request, which travel in its context",
	"actors/subscriptions.chainReader": "wake and leave are bound to one request for permission",
	"bench.loaded":                     "what one target of a benchmark can measure; two are optional",

	// Tables: each row is a constant of the program, and its functions have no state.
	"runtime/vm/logic.scheme": "table of signature schemes",
	"rpc.Method":              "table of methods",
	"rpc/limits.Row":          "table of limits",
	"storage.Column":          "table of columns",
}

// maxMethods is the maximum number of methods that an interface declares itself. A larger interface
// is composed of the roles in which its users need it.
const maxMethods = 8

// largeInterfaces are the interfaces that may declare more methods, and why.
var largeInterfaces = map[string]string{
	"runtime/vm/logic.External":  "the environment of host functions, of which each contract may call all",
	"storage.disk":               "the files of a folder; a store uses all of them, and faults are injected in one place",
	"primitives/view.State":      "the reads of one snapshot, which are released together",
	"primitives.shardLayoutForm": "the forms of one protocol type",
	"runtime/state.Trie":         "the reads and the update of one snapshot",
}

func TestStructsAndInterfacesStaySmall(t *testing.T) {
	type file struct {
		dir string
		*ast.File
	}
	var files []file
	functions := map[string]bool{} // package.Type of named function types
	for _, p := range packages(t) {
		dir := strings.TrimSuffix(folder(p.ImportPath), "/")
		if within(dir, "internal/testkit") {
			continue
		}
		for _, name := range p.GoFiles {
			f, _ := parse(t, filepath.Join(p.Dir, name), parser.ParseComments)
			files = append(files, file{dir, f})
			eachType(f, func(spec *ast.TypeSpec, _ string) {
				if _, is := spec.Type.(*ast.FuncType); is {
					functions[p.Name+"."+spec.Name.Name] = true
				}
			})
		}
	}
	structs, interfaces := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		eachType(f.File, func(spec *ast.TypeSpec, doc string) {
			name := f.dir + "." + spec.Name.Name
			switch s := spec.Type.(type) {
			case *ast.StructType:
				n := 0
				for _, field := range s.Fields.List {
					if isFunction(f.Name.Name, field.Type, functions) {
						n += max(len(field.Names), 1)
					}
				}
				hooks := spec.Name.Name == "Hooks" || spec.Name.Name == "Events"
				switch {
				case hooks && n > 0 && !strings.Contains(doc, "nil"):
					t.Errorf("%s: the comment does not say that nil fields are skipped", name)
				case hooks || n <= maxFunctions:
				case bundles[name] == "":
					t.Errorf("%s has %d function fields, at most %d: declare an interface, and a named type that implements it",
						name, n, maxFunctions)
				default:
					structs[name] = true
				}
			case *ast.InterfaceType:
				n := 0
				for _, m := range s.Methods.List {
					n += len(m.Names) // 0 for an embedded interface
				}
				switch {
				case n <= maxMethods:
				case largeInterfaces[name] == "":
					t.Errorf("%s declares %d methods, at most %d: compose it of roles", name, n, maxMethods)
				default:
					interfaces[name] = true
				}
			}
		})
	}
	for name := range bundles {
		if !structs[name] {
			t.Errorf("the table bundles names %s, which needs no exception", name)
		}
	}
	for name := range largeInterfaces {
		if !interfaces[name] {
			t.Errorf("the table largeInterfaces names %s, which needs no exception", name)
		}
	}
}

// eachType calls f with each type that a file declares, and its comment.
func eachType(file *ast.File, f func(spec *ast.TypeSpec, doc string)) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			if spec, ok := spec.(*ast.TypeSpec); ok {
				f(spec, g.Doc.Text()+spec.Doc.Text())
			}
		}
	}
}

// isFunction returns whether a type is a function type or one of the named functions.
func isFunction(pkg string, e ast.Expr, functions map[string]bool) bool {
	switch e := e.(type) {
	case *ast.FuncType:
		return true
	case *ast.Ident:
		return functions[pkg+"."+e.Name]
	case *ast.SelectorExpr:
		p, ok := e.X.(*ast.Ident)
		return ok && functions[p.Name+"."+e.Sel.Name]
	case *ast.IndexExpr:
		return isFunction(pkg, e.X, functions)
	case *ast.IndexListExpr:
		return isFunction(pkg, e.X, functions)
	}
	return false
}
