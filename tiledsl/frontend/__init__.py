"""How does Python source become tile IR?"""
