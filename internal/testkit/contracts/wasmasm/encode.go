package wasmasm

// Encode returns the binary module.
func (m *Module) Encode() []byte {
	b := []byte(Magic)
	var types, bodies [][]byte
	for _, t := range m.types {
		types = append(types, appendTypes(appendTypes([]byte{0x60}, t.params), t.results))
	}
	b = appendVec(b, 1, types)
	b = appendVec(b, 2, m.imports)
	var kinds [][]byte
	for _, f := range m.funcs {
		kinds = append(kinds, AppendU32(nil, f.kind))
		bodies = append(bodies, f.body())
	}
	b = appendVec(b, 3, kinds)
	b = appendVec(b, 4, m.tables)
	b = appendVec(b, 5, m.memories)
	b = appendVec(b, 6, m.globals)
	b = appendVec(b, 7, m.exports)
	if m.start != nil {
		b = AppendSection(b, 8, AppendU32(nil, *m.start))
	}
	b = appendVec(b, 9, m.elems)
	if m.DataCount {
		b = AppendSection(b, 12, AppendU32(nil, uint32(len(m.data))))
	}
	b = appendVec(b, 10, bodies)
	b = appendVec(b, 11, m.data)
	return m.appendNames(b)
}

// appendVec appends a section that is a list. It omits a section without items.
func appendVec(b []byte, id byte, items [][]byte) []byte {
	if len(items) == 0 {
		return b
	}
	content := AppendU32(nil, uint32(len(items)))
	for _, x := range items {
		content = append(content, x...)
	}
	return AppendSection(b, id, content)
}

// body returns a function's entry in the code section.
func (f *Func) body() []byte {
	b := AppendU32(nil, uint32(len(f.locals)))
	for _, l := range f.locals {
		b = append(AppendU32(b, l.n), byte(l.t))
	}
	b = append(b, f.done()...)
	return append(AppendU32(nil, uint32(len(b))), b...)
}

// NameImport sets the name of an imported function in the name section.
func (m *Module) NameImport(f uint32, name string) {
	m.funcNames = append(m.funcNames, named{f, name})
}

// NameFunc sets the name of a function in the name section.
func (m *Module) NameFunc(f *Func, name string) { m.NameImport(f.Index, name) }

// NameGlobal sets the name of a global in the name section.
func (m *Module) NameGlobal(g uint32, name string) {
	m.globalNames = append(m.globalNames, named{g, name})
}

// Names sets the names of the parameters and locals of a function, in order.
func (f *Func) Names(names ...string) *Func {
	for i, n := range names {
		f.names = append(f.names, named{uint32(i), n})
	}
	return f
}

// appendNames appends the name section if there are names: functions, locals, labels, globals.
func (m *Module) appendNames(b []byte) []byte {
	if len(m.funcNames) == 0 && len(m.globalNames) == 0 {
		return b
	}
	content := AppendName(nil, "name")
	sub := func(id byte, items [][]byte) { content = appendVec(content, id, items) }
	sub(1, nameMap(m.funcNames))
	var locals, labels [][]byte
	for _, f := range m.funcs {
		if len(f.names) > 0 {
			locals = append(locals, indirect(f.Index, f.names))
		}
		if len(f.named) > 0 {
			labels = append(labels, indirect(f.Index, f.named))
		}
	}
	sub(2, locals)
	sub(3, labels)
	sub(7, nameMap(m.globalNames))
	return AppendSection(b, 0, content)
}

func nameMap(list []named) (items [][]byte) {
	for _, n := range list {
		items = append(items, AppendName(AppendU32(nil, n.index), n.name))
	}
	return items
}

// indirect encodes the names of the locals or labels of function f.
func indirect(f uint32, list []named) []byte {
	b := AppendU32(AppendU32(nil, f), uint32(len(list)))
	for _, x := range nameMap(list) {
		b = append(b, x...)
	}
	return b
}
