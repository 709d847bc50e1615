package sstable

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/syndtr/goleveldb/leveldb"
)

// version is goleveldb's list of its tables by level at one moment. It is immutable.
//
// Problem: goleveldb offers that list only as text (property leveldb.sstables). It makes the text by
// appending one table after another to a string, so the time grows with the square of the number of
// tables: seconds for 30,000 of them, while the index takes no writes.
//
// Outline: reads the list from goleveldb's memory. The version is the same as an earlier one if and
// only if its address is, since an address is not used again while it is referenced.
//
// Invariant: fields are read only if they have the expected types. Otherwise, with another release
// of goleveldb, the caller uses the text. A test requires that the fields are found in this release.
type version struct{ v reflect.Value } // *leveldb.version

// currentVersion returns the current version of a database. ok is false if goleveldb's fields are
// not as expected, or if the database is closed.
func currentVersion(db *leveldb.DB) (v version, ok bool) {
	s := reflect.ValueOf(db).Elem().FieldByName("s")
	if s.Kind() != reflect.Pointer || s.IsNil() || s.Elem().Kind() != reflect.Struct {
		return v, false
	}
	mu, now := s.Elem().FieldByName("vmu"), s.Elem().FieldByName("stVersion")
	if !mu.IsValid() || mu.Type() != reflect.TypeFor[sync.Mutex]() || !now.IsValid() || !isVersion(now.Type()) {
		return v, false
	}
	lock := (*sync.Mutex)(unsafe.Pointer(mu.UnsafeAddr())) // it guards the field stVersion
	lock.Lock()
	defer lock.Unlock()
	if now.IsNil() {
		return v, false
	}
	return version{now.Elem()}, true // Elem reads the pointer
}

// isVersion returns whether a type is a pointer to a version as this file expects it.
func isVersion(t reflect.Type) bool {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return false
	}
	levels, ok := t.Elem().FieldByName("levels")
	if !ok || levels.Type.Kind() != reflect.Slice || levels.Type.Elem().Kind() != reflect.Slice {
		return false
	}
	file := levels.Type.Elem().Elem()
	if file.Kind() != reflect.Pointer || file.Elem().Kind() != reflect.Struct {
		return false
	}
	size, ok := file.Elem().FieldByName("size")
	if !ok || size.Type.Kind() != reflect.Int64 {
		return false
	}
	fd, ok := file.Elem().FieldByName("fd")
	if !ok || fd.Type.Kind() != reflect.Struct {
		return false
	}
	num, ok := fd.Type.FieldByName("Num")
	return ok && num.Type.Kind() == reflect.Int64
}

// is returns whether two versions are the same.
func (v version) is(o version) bool { return v.v.Addr().Pointer() == o.v.Addr().Pointer() }

// tables returns the tables as parseTables does.
func (v version) tables() (runs [][]*table, size int64, count int) {
	levels := v.v.FieldByName("levels")
	for level := range levels.Len() {
		list := levels.Index(level)
		run := make([]*table, 0, list.Len())
		for i := range list.Len() {
			f := list.Index(i).Elem()
			t := &table{num: f.FieldByName("fd").FieldByName("Num").Int()}
			size += f.FieldByName("size").Int()
			if level == 0 { // tables of level 0 overlap, so each is a run of its own
				runs = append(runs, []*table{t})
			} else {
				run = append(run, t)
			}
		}
		count += list.Len()
		if len(run) > 0 {
			runs = append(runs, run)
		}
	}
	return runs, size, count
}

// listing is the list of a database's tables at one moment.
type listing struct {
	version version
	text    string // used if there is no version
	read    bool   // version is set
}

// list returns the present tables of a database. ok is false if the database is closed.
func list(db *leveldb.DB) (l listing, ok bool) {
	if l.version, l.read = currentVersion(db); l.read {
		return l, true
	}
	text, err := db.GetProperty(tablesProperty)
	return listing{text: text}, err == nil
}

func (l listing) tables() (runs [][]*table, size int64, count int) {
	if l.read {
		return l.version.tables()
	}
	return parseTables(l.text)
}

// isCurrent returns whether the tables of a database are still those of the listing.
func (l listing) isCurrent(db *leveldb.DB) bool {
	now, ok := list(db)
	if !ok || now.read != l.read {
		return false
	}
	if l.read {
		return l.version.is(now.version)
	}
	return l.text == now.text
}
