package rpc

import (
	"sync"

	"github.com/troupe-chain/troupe/rpc/openapi"
)

// openAPI is the OpenAPI document of the table of methods, made when it is first asked for.
var openAPI = sync.OnceValues(func() ([]byte, error) { return openapi.Document(documented()) })

// documented is what the document says of the table.
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

// documentPath is where it is.
const documentPath = "/openapi.json"

// serveDocument is GET /openapi.json. Whoever asks is given the same bytes: it is larger than all
// else that is there for a GET.
func serveDocument(*Server, []byte) ([]byte, string, bool) {
	text, err := openAPI()
	return text, documentType, err == nil
}
