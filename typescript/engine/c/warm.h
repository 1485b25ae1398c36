/* warm.h: what every run would make for itself, made before the program is loaded.
 *
 * QuickJS makes a built-in function when it is first looked up, and frees a shape (the names of an object's properties) when the
 * last object of that shape is freed. Each activation starts from the memory of the loaded program, so that it would make the
 * functions again, and the shapes again and again. */

/* warm_properties makes all built-in functions that are properties of an object. */
static void warm_properties(JSValueConst o) {
	JSPropertyEnum *names;
	uint32_t n;
	if (JS_GetOwnPropertyNames(ctx, &names, &n, o, JS_GPN_STRING_MASK | JS_GPN_SYMBOL_MASK)) return;
	for (uint32_t i = 0; i < n; i++) {
		JSPropertyDescriptor d;
		if (JS_GetOwnProperty(ctx, &d, o, names[i].atom) > 0) {
			JS_FreeValue(ctx, d.value);
			JS_FreeValue(ctx, d.getter);
			JS_FreeValue(ctx, d.setter);
		}
		JS_FreeAtom(ctx, names[i].atom);
	}
	js_free(ctx, names);
}

/* warm_shapes makes objects that are never freed, of all shapes that an object has on its way to its last property. */
static void warm_shapes(JSValueConst proto, int flags, int n, const char *const *names) {
	for (int i = 0; i <= n; i++) {
		JSValue o = JS_NewObjectProto(ctx, proto);
		for (int j = 0; j < i; j++) JS_DefinePropertyValueStr(ctx, o, names[j], JS_UNDEFINED, flags);
	}
}

static void warm(void) {
	static const char *const used[] = {"Array", "Date", "Error", "Function", "JSON", "Map", "Math", "Number", "Object", "Promise",
		"RegExp", "Set", "String", "Uint8Array"};
	static const char *const of_function[] = {"length", "name"};
	JSValue global = JS_GetGlobalObject(ctx);
	warm_properties(global);
	for (int i = 0; i < (int)countof(used); i++) {
		JSValue o = JS_GetPropertyStr(ctx, global, used[i]), proto = JS_GetPropertyStr(ctx, o, "prototype");
		warm_properties(o);
		if (JS_IsObject(proto)) {
			warm_properties(proto);
			warm_shapes(proto, JS_PROP_CONFIGURABLE, strcmp(used[i], "Function") ? 0 : countof(of_function), of_function);
		}
		JS_FreeValue(ctx, proto);
		JS_FreeValue(ctx, o);
	}
	JS_FreeValue(ctx, global);
}
