package httpapi

// List is a list, or a page of one. All lists of the API have this shape.
type List[T any] struct {
	Items []T `json:"items" nullable:"false"`
	// Next is the cursor of the next page: the parameter cursor. It is absent on the last page.
	Next string `json:"next,omitempty" doc:"the parameter cursor of the next page; absent on the last one"`
}

// ItemsOf returns a value into which a list is decoded. The items are appended to items.
func ItemsOf[T any](items *[]T) any {
	return &struct {
		Items *[]T `json:"items"`
	}{items}
}

// listOutput is an answer that is a list.
type listOutput[T any] struct{ Body List[T] }

// listed answers with a list of one page.
func listed[T any](items []T, err error) (*listOutput[T], error) {
	return paged(items, "", err)
}

// paged answers with a page; next is the cursor of the next page.
func paged[T any](items []T, next string, err error) (*listOutput[T], error) {
	if err != nil {
		return nil, failed(err)
	}
	if items == nil {
		items = []T{} // [] in JSON instead of null
	}
	return &listOutput[T]{List[T]{items, next}}, nil
}
