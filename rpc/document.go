package rpc

import (
	"sync"

	"github.com/troupe-chain/troupe/rpc/openapi"
)

// openAPI is the OpenAPI document of the method table, generated on first use.
var openAPI = sync.OnceValues(func() ([]byte, error) { return openapi.Document(documented()) })

// documented describes the method table for package openapi.
func documented() []openapi.Method {
	list := make([]openapi.Method, 0, len(methods))
	for i := range methods {
		r := &methods[i]
		m := openapi.Method{Name: r.name, Doc: r.doc, Aliases: r.aliases}
		for _, f := range r.faults {
			m.Faults = append(m.Faults, openapi.Fault{Name: f.Name, Fields: f.Fields})
		}
		list = append(list, m)
	}
	return list
}

const documentType = "application/json; charset=utf-8"

// documentPath is the path of the OpenAPI document.
const documentPath = "/openapi.json"

// serveDocument answers GET /openapi.json. All requests share the same bytes, because this is by
// far the largest reply to a GET.
func serveDocument(*Server, []byte) ([]byte, string, bool) {
	text, err := openAPI()
	return text, documentType, err == nil
}
