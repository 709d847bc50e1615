// Package openapi generates the OpenAPI document of the RPC.
//
//	in      the methods as in the RPC's method table; shapes.txt: the shapes of parameters, results
//	        and faults in a short notation
//	out     the document as JSON
//	state   none
//	bound   the text of this package
//	errors  errors in shapes.txt, which a test finds
//	source  OpenAPI 3.1; nearcore chain/jsonrpc/openapi, whose document (1.2.11) names the same
//	        paths, types and members
package openapi
