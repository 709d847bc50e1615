package openapi

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

//go:embed shapes.txt
var shapesText string

// shapes is the parsed content of shapes.txt.
type shapes struct {
	params, results map[string]shape // shapes by name of the method
	faults          map[string]*shape
	types           map[string]shape
	order           []string          // names of the types, in the order of shapes.txt
	texts           map[string]string // documentation by name of a type, or by "method NAME"
}

var readShapes = sync.OnceValues(func() (*shapes, error) { return parseShapes(shapesText) })

// parseShapes parses shapes.txt. A line that begins with four spaces continues the previous line.
func parseShapes(text string) (*shapes, error) {
	s := &shapes{params: map[string]shape{}, results: map[string]shape{}, faults: map[string]*shape{},
		types: map[string]shape{}, texts: map[string]string{}}
	for _, line := range strings.Split(strings.ReplaceAll(text, "\n    ", " "), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		name, of, _ := strings.Cut(rest, " ")
		if err := s.line(kind, name, of); err != nil {
			return nil, fmt.Errorf("openapi: %s %s: %w", kind, name, err)
		}
	}
	return s, nil
}

func (s *shapes) line(kind, name, of string) (err error) {
	switch kind {
	case "method":
		params, result, ok := strings.Cut(of, " -> ")
		if _, twice := s.params[name]; !ok || twice {
			return fmt.Errorf("%q is not of the form PARAMETERS -> RESULT, or occurs twice", of)
		}
		s.texts["method "+name] = of
		if s.params[name], err = parseShape(params); err == nil {
			s.results[name], err = parseShape(result)
		}
		return err
	case "fault":
		if _, twice := s.faults[name]; twice {
			return fmt.Errorf("occurs twice")
		}
		if s.faults[name] = nil; of == "" {
			return nil
		}
		info, err := parseShape(of)
		s.faults[name] = &info
		return err
	case "type":
		text, ok := strings.CutPrefix(of, "= ")
		if !ok {
			return fmt.Errorf("type %s: %q does not begin with \"= \"", name, of)
		}
		if _, twice := s.types[name]; twice {
			return fmt.Errorf("type %s is defined twice", name)
		}
		s.types[name], err = parseShape(text)
		s.texts[name] = text
		s.order = append(s.order, name)
		return err
	}
	return fmt.Errorf("no such kind of line")
}

// Text returns the text in shapes.txt of a type or, if method is set, of a method: "PARAMS ->
// RESULT". The result is empty if shapes.txt has no such entry.
func Text(name string, method bool) string {
	s, err := readShapes()
	if err != nil {
		return ""
	}
	if method {
		name = "method " + name
	}
	return s.texts[name]
}
