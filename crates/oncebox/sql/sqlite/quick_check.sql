SELECT quick_check FROM pragma_quick_check(20)
