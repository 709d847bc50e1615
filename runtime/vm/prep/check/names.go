package check

// maxNames is the maximum number of functions in the result of Names.
const maxNames = 20_000

// Names returns the names of a module's functions by index. The names come from the module's "name"
// section, or, for functions without a name there, from the module's exports. The names are for
// display; Names omits names that do not parse.
func Names(code []byte) map[uint32]string {
	names, exported := map[uint32]string{}, map[uint32]string{}
	if len(code) < 8 {
		return names
	}
	for r := (reader{buf: code, pos: 8}); !r.eof(); {
		id := r.u8()
		s := r.sub(int(r.u32()))
		switch id {
		case sectionCustom:
			if string(s.bytes(int(s.u32()))) == "name" {
				functionNames(&s, names)
			}
		case sectionExport:
			for n := s.u32(); n > 0 && !s.eof() && len(exported) < maxNames; n-- {
				name, kind, index := string(s.bytes(int(s.u32()))), s.u8(), s.u32()
				if kind == kindFunc && s.bad == "" {
					exported[index] = name
				}
			}
		}
	}
	for i, name := range exported {
		if _, ok := names[i]; !ok {
			names[i] = name
		}
	}
	return names
}

// functionNames reads the subsections of a name section.
func functionNames(r *reader, names map[uint32]string) {
	const ofFunctions = 1
	for !r.eof() {
		id := r.u8()
		s := r.sub(int(r.u32()))
		if id != ofFunctions {
			continue
		}
		for n := s.u32(); n > 0 && !s.eof() && len(names) < maxNames; n-- {
			if index, name := s.u32(), string(s.bytes(int(s.u32()))); s.bad == "" {
				names[index] = name
			}
		}
	}
}
