package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Method is the part of an RPC method that the document describes.
type Method struct {
	Name, Doc string
	Aliases   []string
	Faults    []Fault
}

// Fault is a declared failure of a method.
type Fault struct {
	Name   string
	Fields bool // the cause has an info object
}

// object is a JSON object. encoding/json writes its keys in ascending order.
type object = map[string]any

const (
	title   = "Troupe JSON-RPC"
	version = "1.2.11" // version of nearcore's document; all of its paths exist here
	license = "MIT OR Apache-2.0"
	refTo   = "#/components/schemas/"
)

func ref(name string) object { return object{"$ref": refTo + name} }

// Document returns the OpenAPI document of methods.
func Document(methods []Method) ([]byte, error) {
	s, err := readShapes()
	if err != nil {
		return nil, err
	}
	paths, components := object{}, object{}
	for _, name := range s.order {
		components[name] = s.types[name].schema()
	}
	invalid := []any{cause("METHOD_NOT_FOUND", textMember("method_name")), cause("PARSE_ERROR", textMember("error_message"))}
	components["RequestError"] = object{"oneOf": invalid}
	components["InternalError"] = cause("INTERNAL_ERROR", textMember("error_message"))
	for i := range methods {
		m := &methods[i]
		s.method(m, components)
		for _, name := range append([]string{m.Name}, m.Aliases...) {
			doc := m.Doc
			if name != m.Name {
				doc = "Another name of " + m.Name + ". " + doc
			}
			components["Request_"+name] = s.request(name, m.Name)
			paths["/"+name] = object{"post": object{
				"description": strings.ReplaceAll(doc, "\n", " "), "operationId": name,
				"requestBody": object{"required": true, "content": object{"application/json": object{"schema": ref("Request_" + name)}}},
				"responses": object{"200": object{
					"description": "", "content": object{"application/json": object{"schema": ref("Response_" + m.Name)}},
				}},
			}}
		}
	}
	out, err := json.MarshalIndent(object{
		"openapi": "3.1.0", "info": object{"title": title, "version": version, "license": object{"name": license, "identifier": license}},
		"servers": servers(), "paths": paths, "components": object{"schemas": components},
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	return out, missing(components, out)
}

// servers returns the addresses of the paths, relative to the address of the document.
func servers() []any {
	return []any{
		object{"url": "/", "description": "The node that serves this document"},
		object{"url": "/world/{world}", "description": "A world of a sandbox", "variables": object{
			"world": object{"default": "1", "description": "Its number, from sandbox_new_world"},
		}},
		object{"url": "http://localhost:3030", "description": "A node on this machine with the default address"},
	}
}

// missing returns an error for references to types that are not defined.
func missing(components object, document []byte) error {
	for _, rest := range strings.Split(string(document), `"`+refTo)[1:] {
		name, _, _ := strings.Cut(rest, `"`)
		if components[name] == nil {
			return fmt.Errorf("openapi: there is no type %s; those there are: %v", name, slices.Sorted(maps.Keys(components)))
		}
	}
	return nil
}

// request returns the schema of a call's envelope. name is one of the method's names.
func (s *shapes) request(name, method string) object {
	return object{"type": "object", "required": []string{"jsonrpc", "id", "params", "method"}, "properties": object{
		"jsonrpc": object{"type": "string"}, "id": object{"type": "string"}, "method": object{"type": "string", "enum": []string{name}},
		"params": s.params[method].schema(), // the schema of any value if shapes.txt lacks the method
	}}
}

// method adds the replies of a method to components.
func (s *shapes) method(m *Method, components object) {
	causes := []any{ref("InternalError")}
	for _, f := range m.Faults {
		causes = append(causes, cause(f.Name, s.info(m.Name, f)))
	}
	failure := func(name string, cause any) object {
		return object{"type": "object", "required": []string{"name", "cause", "code", "message", "data"}, "properties": object{
			"name": object{"type": "string", "enum": []string{name}}, "cause": cause, "code": object{"type": "integer", "format": "int32"},
			"message": object{"type": "string"}, "data": object{},
		}}
	}
	components["Error_"+m.Name] = object{"oneOf": []any{
		failure(
			"REQUEST_VALIDATION_ERROR",
			ref("RequestError"),
		), failure("HANDLER_ERROR", ref("Cause_"+m.Name)), failure("INTERNAL_ERROR", ref("InternalError")),
	}}
	components["Cause_"+m.Name] = object{"oneOf": causes}
	components["Response_"+m.Name] = object{
		"type": "object", "required": []string{"jsonrpc", "id"},
		"properties": object{"jsonrpc": object{"type": "string"}, "id": object{"type": "string"}},
		"oneOf": []any{
			object{"type": "object", "required": []string{"result"}, "properties": object{"result": s.results[m.Name].schema()}},
			object{"type": "object", "required": []string{"error"}, "properties": object{"error": ref("Error_" + m.Name)}},
		},
	}
}

// info returns the shape of a fault's info object; nil if it has none.
func (s *shapes) info(method string, f Fault) *shape {
	if info, ok := s.faults[method+"/"+f.Name]; ok {
		return info
	}
	if info, ok := s.faults[f.Name]; ok {
		return info
	}
	if f.Fields {
		return new(shape) // a shape without conditions
	}
	return nil
}

// Lacks returns the names of methods, and of faults with fields, that shapes.txt does not describe.
func Lacks(methods []Method) (names []string, err error) {
	s, err := readShapes()
	if err != nil {
		return nil, err
	}
	for i := range methods {
		m := &methods[i]
		if _, ok := s.params[m.Name]; !ok {
			names = append(names, m.Name)
		}
		for _, f := range m.Faults {
			if _, ok := s.faults[f.Name]; !ok && f.Fields {
				names = append(names, f.Name)
			}
		}
	}
	return names, nil
}

// textMember returns the shape of an object with one string member.
func textMember(name string) *shape {
	return &shape{form: isObject, members: []shapeMember{{name: name, shape: shape{form: isScalar, name: "string"}}}}
}

// cause returns the schema of the member "cause" of an error object. name is the fault's name. A
// nil info means that the cause has no info object.
func cause(name string, info *shape) object {
	properties, required := object{"name": object{"type": "string", "enum": []string{name}}}, []string{"name"}
	if info != nil {
		properties["info"], required = info.schema(), append(required, "info")
	}
	return object{"type": "object", "required": required, "properties": properties}
}

var null = object{"type": "null"}

var integers = map[string]object{
	"u8": {
		"format":  "uint8",
		"maximum": 255,
	}, "u16": {"format": "uint16", "maximum": 65535}, "u32": {"format": "uint32"}, "u64": {"format": "uint64"},
	"uint": {"format": "uint"}, "i32": {"format": "int32"}, "i64": {"format": "int64"},
}

// schema returns the shape as JSON Schema of draft 2020-12.
func (s shape) schema() object {
	switch s.form {
	case isNull:
		return maps.Clone(null)
	case isScalar:
		return scalarSchema(s.name)
	case isRef:
		return ref(s.name)
	case isLiteral:
		return object{"type": "string", "enum": []string{s.name}}
	case isObject:
		return s.objectSchema()
	case isMap:
		return object{"type": "object", "additionalProperties": s.items[0].schema()}
	case isList:
		out := object{"type": "array", "items": s.items[0].schema()}
		if s.size > 0 {
			out["minItems"], out["maxItems"] = s.size, s.size
		}
		return out
	case isTuple:
		return object{"type": "array", "prefixItems": s.each(s.items), "minItems": len(s.items), "maxItems": len(s.items)}
	case isNullOr:
		switch out := s.items[0].schema(); s.items[0].form {
		case isScalar, isList, isMap, isTuple:
			out["type"] = []any{out["type"], "null"}
			return out
		default:
			return object{"anyOf": []any{out, maps.Clone(null)}}
		}
	case isOneOf:
		return s.union("oneOf")
	case isAnyOf:
		return object{"anyOf": s.each(s.items)}
	case isAllOf:
		return object{"allOf": s.each(s.items)}
	}
	return object{}
}

func (s shape) each(list []shape) (out []any) {
	for i := range list {
		out = append(out, list[i].schema())
	}
	return out
}

// union returns the schema of a choice. It merges the literals among the items into one enum.
func (s shape) union(word string) object {
	var texts []string
	var others []shape
	for _, x := range s.items {
		if x.form == isLiteral {
			texts = append(texts, x.name)
		} else {
			others = append(others, x)
		}
	}
	choices := s.each(others)
	if texts != nil {
		enum := object{"type": "string", "enum": texts}
		if others == nil {
			return enum
		}
		choices = append([]any{enum}, choices...)
	}
	return object{word: choices}
}

func scalarSchema(name string) object {
	base, from1 := strings.CutSuffix(name, "+")
	switch base {
	case "bool":
		return object{"type": "boolean"}
	case "string":
		return object{"type": "string"}
	case "base64":
		return object{"type": "string", "format": "bytes"}
	case "time":
		return object{"type": "string", "format": "date-time"}
	case "double":
		return object{"type": "number", "format": "double"}
	}
	out := maps.Clone(integers[base])
	out["type"] = "integer"
	switch {
	case from1:
		out["minimum"] = 1
	case base[0] == 'u':
		out["minimum"] = 0
	}
	return out
}

func (s shape) objectSchema() object {
	out := object{"type": "object"}
	if s.closed {
		out["additionalProperties"] = false
	}
	properties, required := object{}, []string{}
	for i := range s.members {
		m := &s.members[i]
		p := m.shape.schema()
		if m.standing != "" {
			if p["$ref"] != nil {
				p = object{"allOf": []any{p}}
			}
			p["default"] = json.RawMessage(m.standing)
		}
		properties[m.name] = p
		if !m.optional {
			required = append(required, m.name)
		}
	}
	if len(properties) > 0 {
		out["properties"] = properties
	}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}
